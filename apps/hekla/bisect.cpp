#include "bisect.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include "base/file.hpp"
#include "graph/builder.hpp"
#include "graph/text.hpp"
#include "model/safetensors.hpp"
#include "program/host_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace hekla::app {
namespace {

using graph::Op;
using Values = std::map<graph::ValueId, graph::Tensor>;
using Named = std::map<std::string, graph::Tensor, std::less<>>;

std::string output_name(graph::ValueId value) { return fmt::format("value.{}", value); }

// Computes the outputs of a graph on the device.
Result<Named> run_on_device(program::Runtime& runtime, const graph::Graph& graph, const graph::Feeds& feeds,
                            const std::vector<std::string>& outputs) {
    HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(graph)));
    for (const program::ParameterEntry& entry : store->table()) {
        const auto given = feeds.parameters.find(entry.name);
        if (given == feeds.parameters.end()) return internal_error(fmt::format("no values for {}", entry.name));
        const std::vector<float> values(given->second.data.begin(), given->second.data.end());
        HK_TRY(store->upload(entry.name, values));
    }
    program::CompileOptions options;
    options.outputs = outputs;
    options.gradients = program::Gradients::ignore;
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, *store, options));
    for (const auto& [name, tensor] : feeds.fields)
        if (program->has_input(name)) HK_TRY(program->set_input(name, program::bytes_of(tensor)));
    for (const auto& [name, value] : feeds.step_scalars)
        if (program->has_scalar(name)) HK_TRY(program->set_scalar(name, static_cast<float>(value)));
    HK_TRY(program->run({.seed = feeds.seed,
                         .step = static_cast<uint32_t>(feeds.step),
                         .first_example = static_cast<uint32_t>(feeds.first_example)}));
    Named result;
    for (const std::string& name : outputs) {
        HK_ASSIGN(const program::HostTensor output, program->read_output(name));
        const graph::Value& value = graph.value(graph.outputs.at(name));
        result.emplace(name, graph::Tensor{value.kind, value.shape, program::tensor_of(output).data});
    }
    return result;
}

// max|a-b| / max|b| over the finite values of b. A NaN or infinity that the reference does not have counts as infinite.
// Integers must be equal.
double error_of(const graph::Tensor& a, const graph::Tensor& b) {
    double difference = 0.0, size = 0.0;
    for (std::size_t i = 0; i < b.data.size(); ++i) {
        const double x = a.data[i], y = b.data[i];
        if (std::isfinite(y)) size = std::max(size, std::abs(y));
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        if (!graph::is_float(b.kind) || !std::isfinite(x) || !std::isfinite(y))
            return std::numeric_limits<double>::infinity();
        difference = std::max(difference, std::abs(x - y));
    }
    return size > 0.0 ? difference / size : difference;
}

// One node on its own: its inputs are fields "x0", "x1", ..., its outputs "y0", "y1", ...
struct Alone {
    graph::Graph graph;
    graph::Feeds feeds;
    std::vector<std::string> outputs;
};

Result<Alone> alone(const graph::Graph& graph, graph::NodeId id, const Values& values, const graph::Feeds& feeds) {
    const graph::Node& node = graph.nodes[id];
    Alone one;
    one.feeds.seed = feeds.seed;
    one.feeds.step = feeds.step;
    one.feeds.first_example = feeds.first_example;
    graph::Builder builder;
    std::vector<graph::ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const graph::ValueId input = node.inputs[i];
        if (input == graph::kNone) {
            inputs.push_back(graph::kNone);
            continue;
        }
        const std::string name = fmt::format("x{}", i);
        inputs.push_back(builder.input(name, graph.kind(input), graph.shape(input)));
        one.feeds.fields.emplace(name, values.at(input));
    }
    std::vector<graph::NamedAttribute> attributes;
    for (const graph::Attribute& attribute : node.attributes) attributes.push_back({attribute.name, attribute.value});
    const std::vector<graph::ValueId> outputs = node.own != nullptr ? builder.emit_own(node.own, inputs, attributes)
                                                                    : builder.emit(node.op, inputs, attributes);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        one.outputs.push_back(fmt::format("y{}", i));
        builder.output(one.outputs.back(), outputs[i]);
    }
    HK_ASSIGN(one.graph, builder.finish());
    return one;
}

Status write_tensors(const std::filesystem::path& file, const Named& tensors) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<model::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
        bytes.push_back(program::bytes_of(tensor));
        model::TensorView view;
        view.name = name;
        view.dtype = tensor.kind == graph::Kind::int32 ? model::DType::i32 : model::DType::f32;
        view.dims.assign(tensor.shape.dims().begin(), tensor.shape.dims().begin() + tensor.shape.rank());
        views.push_back(std::move(view));
    }
    for (std::size_t i = 0; i < views.size(); ++i) views[i].bytes = bytes[i];
    const auto written = model::write_safetensors_file(file, model::sources_of(views));
    return written.ok() ? Status() : written.status();
}

// "norm/forward" -> "0.norm_forward.spv"
std::string file_name(std::size_t index, std::string shader, const char* extension) {
    std::replace_if(
        shader.begin(), shader.end(), [](char c) { return c == '/' || c == ':'; }, '_');
    return fmt::format("{}.{}{}", index, shader, extension);
}

Status write_dispatches(program::Runtime& runtime, const Alone& one, const std::filesystem::path& folder) {
    program::CompileOptions options;
    options.outputs = one.outputs;
    HK_ASSIGN(const program::Lowering lowering, program::lower(one.graph, runtime.limits(), options));
    std::string list;
    for (std::size_t i = 0; i < lowering.dispatches.size(); ++i) {
        const program::Dispatch& dispatch = lowering.dispatches[i];
        list +=
            fmt::format("{}: {}, {} workgroups, subgroup size {}, specialization constants [{}]\n", i, dispatch.shader,
                        dispatch.groups, dispatch.subgroup_size, fmt::join(dispatch.constants, ", "));
        if (!dispatch.source.empty())
            HK_TRY(write_file_atomically(folder / file_name(i, dispatch.shader, ".comp"), dispatch.source));
        HK_ASSIGN(const gpu::Shader shader, runtime.shader(dispatch));
        const auto words = shader.words();
        const std::string_view binary(reinterpret_cast<const char*>(words.data()), words.size_bytes());
        HK_TRY(write_file_atomically(folder / file_name(i, dispatch.shader, ".spv"), binary));
    }
    return write_file_atomically(folder / "dispatches.txt", list);
}

Status write_reproducer(program::Runtime& runtime, const Alone& one, const Named& device, const Named& reference,
                        const std::filesystem::path& folder) {
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem) return io_error(fmt::format("{}: cannot be made: {}", folder.string(), problem.message()));
    HK_TRY(write_file_atomically(folder / "graph.txt", graph::print(one.graph)));
    HK_TRY(write_tensors(folder / "inputs.safetensors", one.feeds.fields));
    HK_TRY(write_tensors(folder / "device.safetensors", device));
    HK_TRY(write_tensors(folder / "reference.safetensors", reference));
    return write_dispatches(runtime, one, folder);
}

// Leaves that the host fills; the others (constants, ranges) are compared like every node.
bool given(Op op) { return op == Op::input || op == Op::parameter || op == Op::buffer || op == Op::step_scalar; }

} // namespace

std::string Bisection::text() const {
    if (!found)
        return fmt::format("no operation leaves the reference: of {}, {} is furthest from it, by {:.1e} ({})", compared,
                           node, error, output);
    std::string text =
        fmt::format("{} is the first operation that leaves the reference: {} by {:.1e}", node, output, error);
    if (!reproducer.empty())
        text += fmt::format("; reproducer in {}{}", reproducer.string(),
                            reproduced ? "" : " (alone, the operation is computed as it should be)");
    return text;
}

Result<Bisection> bisect(program::Runtime& runtime, const graph::Graph& given_graph, const graph::Feeds& feeds,
                         const BisectOptions& options) {
    // Every value that the graph's outputs need becomes an output.
    graph::Graph graph = given_graph;
    std::vector<bool> needed(graph.nodes.size(), false);
    for (const auto& [name, value] : graph.outputs) needed[graph.value(value).node] = true;
    for (graph::NodeId id = static_cast<graph::NodeId>(graph.nodes.size()); id-- > 0;)
        if (needed[id])
            for (const graph::ValueId input : graph.nodes[id].inputs)
                if (input != graph::kNone) needed[graph.value(input).node] = true;
    graph.outputs.clear();
    std::vector<std::string> names;
    for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
        if (!needed[id]) continue;
        for (const graph::ValueId value : graph.nodes[id].outputs) {
            if (graph.shape(value).elements() == 0) continue;
            names.push_back(output_name(value));
            graph.outputs.emplace(names.back(), value);
        }
    }
    HK_ASSIGN(Named kept, run_on_device(runtime, graph, feeds, names));
    Values values;
    for (const auto& [name, value] : graph.outputs) values.emplace(value, std::move(kept.at(name)));
    for (graph::ValueId value = 1; value < graph.values.size(); ++value)
        if (graph.shape(value).elements() == 0)
            values.emplace(value, graph::Tensor{graph.kind(value), graph.shape(value), {}});

    Bisection result;
    for (graph::NodeId id = 0; id < graph.nodes.size() && !result.found; ++id) {
        const graph::Node& node = graph.nodes[id];
        if (!needed[id] || given(node.op)) continue;
        Result<Alone> made = alone(graph, id, values, feeds);
        if (!made.ok()) return made.status().with_context(graph.describe(id));
        const Alone one = made.take();
        std::vector<graph::ValueId> wanted;
        for (const std::string& name : one.outputs) wanted.push_back(one.graph.outputs.at(name));
        Result<std::vector<graph::Tensor>> evaluated = graph::evaluate(one.graph, one.feeds, wanted);
        if (!evaluated.ok()) return evaluated.status().with_context(graph.describe(id));
        ++result.compared;
        Named device, reference;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const graph::Tensor& ours = values.at(node.outputs[i]);
            const double error = error_of(ours, evaluated.value()[i]);
            device.emplace(one.outputs[i], ours);
            reference.emplace(one.outputs[i], evaluated.value()[i]);
            if (result.found || (error <= result.error && !result.node.empty())) continue;
            result.error = error;
            result.node = graph.describe(id);
            result.output = graph::info(node).outputs[i].name;
            result.found = error > options.bar;
        }
        if (!result.found || options.folder.empty()) continue;
        HK_TRY(write_reproducer(runtime, one, device, reference, options.folder));
        result.reproducer = options.folder;
        HK_ASSIGN(const Named again, run_on_device(runtime, one.graph, one.feeds, one.outputs));
        for (const std::string& name : one.outputs)
            if (error_of(again.at(name), reference.at(name)) > options.bar) result.reproduced = true;
    }
    return result;
}

} // namespace hekla::app
