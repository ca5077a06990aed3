#include "infer/passes/forward.hpp"

#include "gpu/memory.hpp"
#include "graph/output.hpp"
#include "graph/passes/id_range.hpp"
#include "graph/passes/logit_lens.hpp"
#include "graph/passes/simplify.hpp"
#include "graph/reference.hpp"
#include "infer/open/model.hpp"
#include "infer/passes/field_tensors.hpp"
#include "program/estimate.hpp"
#include "program/host_tensor.hpp"
#include "program/program.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace hekla::infer {
namespace {

// The port with the weights of recurrent models, which do not use the attention operation.
constexpr const char* kAttentionPort = "attention";

// Returns every port of a graph that was described with all of them, and removes them from its outputs.
std::map<std::string, graph::ValueId> take_ports(graph::Graph& graph) {
    std::map<std::string, graph::ValueId> ports;
    for (const auto& [name, value] : graph::outputs_of(graph, graph::OutputKind::port)) {
        ports.emplace(name, value);
        graph.outputs.erase(graph::output_name(graph::OutputKind::port, name));
    }
    return ports;
}

} // namespace

Result<std::vector<std::string>> port_names(const Model& model, const Tensors& fields) {
    HK_ASSIGN(graph::Graph graph,
              model.composition->build(HK_MODE_EVALUATE, described(fields), {}, /*all_ports=*/true));
    std::vector<std::string> names;
    for (const auto& [name, value] : take_ports(graph)) names.push_back(name);
    return names;
}

Result<bool> reads_field(const Model& model, const Tensors& fields, const std::string& field) {
    HK_ASSIGN(const graph::Graph graph, model.composition->build(HK_MODE_EVALUATE, described(fields)));
    return graph.find_leaf(graph::Op::input, field) != graph::kNone;
}

Status Forward::describe(const Tensors& fields, const std::vector<std::string>& ports, bool attention, bool lens) {
    HK_ASSIGN(graph_, model_->composition->build(HK_MODE_EVALUATE, described(fields), ports, attention || lens));
    const std::map<std::string, graph::ValueId> offered = take_ports(graph_);
    if (attention) {
        const auto weights = offered.find(kAttentionPort);
        HK_ASSIGN(maps_, graph::add_attention_maps(graph_, weights != offered.end() ? weights->second : graph::kNone));
    }
    if (lens) {
        std::vector<std::string> added;
        for (const auto& [name, value] : offered)
            if ((name == "logits" || (name.starts_with("layer.") && name.ends_with(".hidden"))) &&
                graph_.outputs.emplace(name, value).second)
                added.push_back(name);
        HK_TRY(graph::add_logit_lens(graph_).status());
        for (const std::string& name : added) graph_.outputs.erase(name);
    }
    HK_ASSIGN(graph_, graph::simplify(graph_));
    return {};
}

Result<std::unique_ptr<Forward>> Forward::create(Model& model, const Tensors& fields,
                                                 const std::vector<std::string>& ports, bool attention) {
    std::unique_ptr<Forward> f(new Forward());
    f->model_ = &model;
    HK_TRY(f->describe(fields, ports, attention, false));
    if (model.runtime == nullptr) return f;
    program::CompileOptions options;
    options.gradients = program::Gradients::ignore;
    for (const auto& [name, value] : f->graph_.outputs) options.outputs.push_back(name);
    HK_ASSIGN(f->program_, program::Program::compile(*model.runtime, f->graph_, *model.store, options));
    return f;
}

Result<std::unique_ptr<Forward>> Forward::create_on_device(Model& model, const Tensors& fields,
                                                           const std::vector<std::string>& ports, bool attention,
                                                           bool lens, const GiveBuffer& buffer) {
    std::unique_ptr<Forward> f(new Forward());
    f->model_ = &model;
    HK_TRY(f->describe(fields, ports, attention, lens));
    const program::CompileOptions options = f->on_device(fields);
    for (const auto* states : {&options.state_inputs, &options.state_outputs}) {
        for (const auto& [name, state] : *states) {
            const uint64_t bytes = static_cast<uint64_t>(f->find(name)->shape.elements()) * 4;
            HK_ASSIGN(gpu::Buffer given, buffer(name, bytes));
            HK_TRY(given ? model.store->adopt_state(state, std::move(given)) : model.store->make_state(state, bytes));
        }
    }
    HK_ASSIGN(f->program_, program::Program::compile(*model.runtime, f->graph_, *model.store, options));
    return f;
}

program::CompileOptions Forward::on_device(const Tensors& fields) const {
    program::CompileOptions options;
    options.gradients = program::Gradients::ignore;
    for (const auto& [name, tensor] : fields)
        if (find(name) != nullptr) options.state_inputs[name] = forward_state(name);
    for (const auto& [name, value] : graph_.outputs) options.state_outputs[name] = forward_state(name);
    return options;
}

Status Forward::estimate(program::Estimator& estimator, Model& model, const Tensors& fields,
                         const std::vector<std::string>& ports, bool attention) {
    Forward f;
    f.model_ = &model;
    HK_TRY(f.describe(fields, ports, attention, false));
    return estimator.add(f.graph_, f.on_device(fields), 1.0).status();
}

int64_t Forward::id_range(std::string_view field) const { return graph::id_range(graph_, field); }

const graph::Value* Forward::find(std::string_view name) const {
    const auto output = graph_.outputs.find(std::string(name));
    const graph::ValueId value =
        output != graph_.outputs.end() ? output->second : graph_.find_leaf(graph::Op::input, name);
    return value == graph::kNone ? nullptr : &graph_.value(value);
}

std::vector<std::string> Forward::output_names() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : graph_.outputs) names.push_back(name);
    return names;
}

Status Forward::run() { return program_->run(); }

std::vector<std::string> Forward::step_scalars() const {
    std::set<std::string> names;
    for (const graph::Node& node : graph_.nodes)
        if (node.op == graph::Op::step_scalar) names.insert(std::string(node.text("name")));
    return {names.begin(), names.end()};
}

Status Forward::set_scalar(std::string_view name, double value) {
    if (program_ == nullptr || !program_->has_scalar(name)) return {};
    return program_->set_scalar(name, static_cast<float>(value));
}

Forward::~Forward() = default;

Result<Tensors> Forward::run(const Tensors& fields) {
    Tensors outputs;
    if (program_ == nullptr) {
        graph::Feeds feeds;
        feeds.fields = fields;
        feeds.parameters = model_->parameters;
        feeds.buffers = model_->parameters;
        std::vector<graph::ValueId> wanted;
        for (const auto& [name, value] : graph_.outputs) wanted.push_back(value);
        HK_ASSIGN(std::vector<graph::Tensor> values, graph::evaluate(graph_, feeds, wanted));
        std::size_t i = 0;
        for (const auto& [name, value] : graph_.outputs) outputs.emplace(name, std::move(values[i++]));
        return outputs;
    }
    for (const auto& [name, tensor] : fields)
        if (program_->has_input(name)) HK_TRY(program_->set_input(name, program::bytes_of(tensor)));
    HK_TRY(program_->run());
    for (const std::string& name : program_->output_names()) {
        HK_ASSIGN(const program::HostTensor host, program_->read_output(name));
        outputs.emplace(name, program::tensor_of(host));
    }
    return outputs;
}

} // namespace hekla::infer
