#include "check/fenced.hpp"
#include "check/probe.hpp"
#include "check/tests.hpp"
#include "program/runtime.hpp"

#include "base/philox.hpp"
#include "graph/text.hpp"
#include "plugin/host/host_operation.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::check {
namespace {

using graph::Kind;
using graph::Op;
using graph::Shape;
using graph::ValueId;
using nlohmann::json;
using plugin::OwnOperations;

using Shapes = std::vector<Shape>; // of the inputs

// One operation of the plugin, looked up as a graph does it.
struct Tried {
    const plugin::Provided* provided = nullptr;
    json check; // of its manifest
    OwnOperations::Known known;
};

OwnOperations operations_of(const Trial& trial) {
    return OwnOperations(
        [&trial](const std::string& id) { return trial.registry().open<hk_operation>(HK_OPERATION_INTERFACE, id); });
}

Result<Tried> own_of(const Trial& trial, const plugin::Provided& provided) {
    trial.doing(name_of(provided) + ": described");
    OwnOperations all = operations_of(trial);
    const std::string_view id = provided.id;
    const std::size_t slash = id.find('/');
    const std::string name(id.substr(0, slash));
    uint32_t revision = 0;
    if (slash != std::string::npos) std::from_chars(id.data() + slash + 1, id.data() + id.size(), revision);
    if (revision == 0) revision = std::max(1u, all.newest_revision(name)); // 0: find() reports the reason
    HK_ASSIGN(const OwnOperations::Known* known, all.find(name, revision));
    return Tried{&provided, provided.check.parse(), *known};
}

std::string shapes_text(const Shapes& shapes) {
    std::vector<std::string> texts;
    for (const Shape& shape : shapes) texts.push_back(shape.text());
    return fmt::format("{}", fmt::join(texts, ", "));
}

// Returns attributes from the manifest's "check", otherwise the defaults. changed: reals that are not given differ from
// their default.
std::vector<graph::NamedAttribute> given_attributes(const Tried& own, bool changed) {
    std::vector<graph::NamedAttribute> given;
    const json values = own.check.value("attributes", json::object());
    for (const auto& [name, type, fallback] : own.known.operation->declaration().attributes) {
        const auto found = values.find(name);
        if (found == values.end()) {
            const double* const usual = fallback ? std::get_if<double>(&*fallback) : nullptr;
            if (changed && usual != nullptr) given.push_back({name, *usual == 0.5 ? 0.75 : 0.75 * *usual + 0.125});
            continue;
        }
        switch (type) {
        case graph::AttributeType::integer: given.push_back({name, found->get<int64_t>()}); break;
        case graph::AttributeType::real: given.push_back({name, found->get<double>()}); break;
        case graph::AttributeType::text: given.push_back({name, found->get<std::string>()}); break;
        case graph::AttributeType::ints: given.push_back({name, found->get<std::vector<int64_t>>()}); break;
        default: given.push_back({name, found->get<std::vector<double>>()});
        }
    }
    return given;
}

// Calls the shape rule directly with these shapes.
Status shape_rule(const Tried& own, const Shapes& shapes, const std::vector<graph::NamedAttribute>& given) {
    const graph::OwnDeclaration& d = own.known.operation->declaration();
    HK_ASSIGN(const std::vector<graph::Attribute> attributes,
              graph::complete_attributes(own.known.operation->info(), given));
    const std::vector<hk_attribute> values = plugin::raw_attributes(attributes);
    std::vector<hk_operation_tensor> in, out(d.outputs.size(), plugin::raw_tensor(Kind::float_, Shape{}, nullptr));
    for (std::size_t i = 0; i < shapes.size(); ++i)
        in.push_back(plugin::raw_tensor(d.inputs[i].integer ? Kind::int32 : Kind::float_, shapes[i], nullptr));
    hk_operation_cost cost{};
    cost.struct_size = sizeof cost;
    const hk_operation_use use = plugin::raw_use(in, values, out);
    hk_error error;
    const int32_t code = plugin::guarded(error, [&] { return own.known.table->shape(&use, &cost, &error); });
    return plugin::status_of(code, error, d.name);
}

// Multiplies by the identity: the same numbers, stored in a separate buffer, in 16 bits if that is the precision.
ValueId stored(graph::Builder& b, ValueId value) {
    const Shape shape = b.shape(value);
    if (shape.rank() == 0 || shape.elements() == 0) return value;
    const int64_t width = shape[shape.rank() - 1];
    std::vector<double> one(static_cast<std::size_t>(width * width));
    for (int64_t i = 0; i < width; ++i) one[static_cast<std::size_t>(i * (width + 1))] = 1.0;
    const ValueId rows = b(Op::reshape, {value}, {{"shape", std::vector<int64_t>{shape.elements() / width, width}}});
    const ValueId same = b(Op::matmul, {rows, b.constant(Kind::float_, Shape{width, width}, std::move(one))});
    return b(Op::reshape, {same}, {{"shape", shape.vector()}});
}

ValueId total(graph::Builder& b, ValueId value) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < b.shape(value).rank(); ++axis) axes.push_back(axis);
    return axes.empty() ? value : b(Op::sum, {value}, {{"axes", axes}});
}

// Builds a graph of the operation alone, between inputs and a sum that is minimized.
Result<Probe> use_of(const Trial& trial, const Tried& own, const Shapes& shapes, bool changed = false) {
    OwnOperations all = operations_of(trial);
    plugin::Joint joint;
    joint.own = &all;
    joint.mode = HK_MODE_TRAIN;
    graph::Builder& b = joint.builder;
    const graph::OwnDeclaration& d = own.known.operation->declaration();
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < d.inputs.size(); ++i) {
        const auto& [name, integer] = d.inputs[i];
        inputs.push_back(integer ? b.input(name, Kind::int32, shapes[i])
                                 : stored(b, b.parameter(name, shapes[i], HK_INITIALIZE_NORMAL, 0.0, 1.0, 0)));
    }
    const std::vector<ValueId> outputs =
        plugin::emit_own(joint, plugin::next_tag(), own.known, inputs, given_attributes(own, changed));
    HK_TRY(b.status());
    Probe probe;
    probe.name = fmt::format("{} of {}", name_of(*own.provided), shapes_text(shapes));
    RandomStream random(trial.seed(), 11);
    ValueId sum = graph::kNone;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        b.output(d.outputs[i], outputs[i]);
        if (b.kind(outputs[i]) == Kind::int32) continue;
        const std::string name = "weights of " + d.outputs[i];
        graph::Tensor weights{Kind::float32, b.shape(outputs[i]), {}};
        for (int64_t k = 0; k < weights.shape.elements(); ++k)
            weights.data.push_back(static_cast<double>(static_cast<float>(random.next_normal())));
        const ValueId weighted = b(Op::mul, {stored(b, outputs[i]), b.input(name, Kind::float32, b.shape(outputs[i]))});
        const ValueId one = b(Op::cast, {total(b, weighted)}, {{"kind", int64_t{HK_KIND_FLOAT32}}});
        sum = sum == graph::kNone ? one : b(Op::add, {sum, one});
        probe.feeds.fields[name] = std::move(weights);
    }
    if (sum != graph::kNone) b.loss("sum", sum, b.fill(Kind::float32, Shape{}, 1.0), 1.0);
    HK_ASSIGN(probe.graph, b.finish());
    std::map<std::string, graph::Tensor, std::less<>> fields = std::move(probe.feeds.fields);
    probe.feeds = feeds_of(probe.graph, {}, trial.seed());
    probe.feeds.fields = std::move(fields);
    // The domain of the operation, and the number of rows to choose from.
    const json range = own.check.value("range", json());
    if (range.is_array() && range.size() == 2)
        for (auto& [name, tensor] : probe.feeds.parameters)
            for (double& value : tensor.data)
                value = range[0].get<double>() + random.next_unit() * (range[1].get<double>() - range[0].get<double>());
    round_parameters(probe.feeds);
    const auto integers = own.check.value("integers", uint64_t{2});
    for (std::size_t i = 0; i < d.inputs.size(); ++i) {
        if (!d.inputs[i].integer) continue;
        graph::Tensor tensor{Kind::int32, shapes[i], {}};
        for (int64_t k = 0; k < shapes[i].elements(); ++k)
            tensor.data.push_back(static_cast<double>(random.next_below(std::max<uint64_t>(1, integers))));
        probe.feeds.fields[d.inputs[i].name] = std::move(tensor);
    }
    return probe;
}

// Returns the shapes to try: the manifest's, or the same shape for all inputs.
std::vector<Shapes> shapes_to_try(const Tried& own) {
    const std::size_t inputs = own.known.operation->declaration().inputs.size();
    std::vector<Shapes> all;
    const json given = own.check.value("shapes", json());
    if (given.is_array()) {
        for (const json& use : given) {
            Shapes shapes;
            for (const json& dims : use) shapes.push_back(Shape(dims.get<std::vector<int64_t>>()));
            if (shapes.size() == inputs) all.push_back(std::move(shapes));
        }
        return all;
    }
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 3, 8}, Shape{4, 129}, Shape{2, 3, 4, 5}})
        all.emplace_back(inputs, shape);
    return all;
}

const graph::OwnUse* own_use(const graph::Graph& graph) {
    const auto node = std::ranges::find_if(graph.nodes, [](const graph::Node& one) { return one.own != nullptr; });
    return node == graph.nodes.end() ? nullptr : node->own.get();
}

} // namespace

// Builds uses of every operation of the plugin: in all shapes that its shape rule accepts, and once with other
// attributes. A use that the rule accepts must succeed.
Result<std::vector<Probe>> operation_probes(Trial& trial) {
    std::vector<Probe> all;
    for (const plugin::Provided& provided : trial.operations()) {
        HK_ASSIGN(const Tried own, own_of(trial, provided));
        Status why;
        const std::size_t before = all.size();
        bool refused = true;
        for (const Shapes& shapes : shapes_to_try(own)) {
            const std::string what = fmt::format("{} of {}", name_of(provided), shapes_text(shapes));
            trial.doing(what + ": described");
            if (why = shape_rule(own, shapes, given_attributes(own, false)); !why.ok()) {
                if (const std::string bad = bad_refusal(why); !bad.empty())
                    trial.fail(fmt::format("{}: {}", what, bad));
                continue;
            }
            refused = false;
            Result<Probe> use = use_of(trial, own, shapes);
            if (use.ok())
                all.push_back(use.take());
            else
                trial.fail(fmt::format("{}: its shape rule accepts that, but: {}", what, use.message()));
            Result<Probe> changed = use_of(trial, own, shapes, true);
            if (all.size() == before + 1 && changed.ok()) {
                changed->name += ", with other attributes";
                all.push_back(changed.take());
            }
        }
        if (refused)
            trial.skip(fmt::format("{}: it accepts none of the tried shapes ({}): list some in the manifest, "
                                   "\"check\": {{\"shapes\": [[[2, 3], [3]]], \"attributes\": {{}}, \"integers\": 4}} "
                                   "(a list of uses, each with a shape for every input)",
                                   name_of(provided), why.message()));
    }
    return all;
}

Status test_operation_shapes(Trial& trial) {
    for (const plugin::Provided& provided : trial.operations()) {
        HK_ASSIGN(const Tried own, own_of(trial, provided));
        const std::size_t inputs = own.known.operation->declaration().inputs.size();
        std::vector<Shapes> all = shapes_to_try(own);
        const std::size_t usual = all.size();
        const int64_t large = int64_t{1} << 20;
        for (const Shape& shape : {Shape{}, Shape{0}, Shape{2, 0, 3}, Shape{1, 1, 1, 1, 1, 1}, Shape{large, large}})
            all.emplace_back(inputs, shape);
        if (inputs > 1) {
            all.emplace_back(inputs, Shape{2, 3});
            all.back().back() = Shape{5};
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            const std::string what = fmt::format("{} of {}", name_of(provided), shapes_text(all[i]));
            trial.doing(what + ": its shapes and cost");
            if (i >= usual) { // only the shape rule: no tensors are created
                plugin::Joint joint;
                OwnOperations operations = operations_of(trial);
                joint.own = &operations;
                joint.mode = HK_MODE_ENCODE;
                std::vector<ValueId> values;
                for (std::size_t k = 0; k < inputs; ++k)
                    values.push_back(joint.builder.input(
                        fmt::format("x{}", k),
                        own.known.operation->declaration().inputs[k].integer ? Kind::int32 : Kind::float_, all[i][k]));
                plugin::emit_own(joint, plugin::next_tag(), own.known, values, given_attributes(own, false));
                if (const std::string bad = bad_refusal(joint.builder.status()); !bad.empty())
                    trial.fail(fmt::format("{}: {}", what, bad));
                continue;
            }
            if (!shape_rule(own, all[i], given_attributes(own, false)).ok()) continue;
            const Result<Probe> first = use_of(trial, own, all[i]);
            const Result<Probe> second = use_of(trial, own, all[i]);
            if (!first.ok()) {
                trial.fail(fmt::format("{}: its shape rule accepts that, but: {}", what, first.message()));
                continue;
            }
            if (!second.ok() || graph::print(first->graph) != graph::print(second->graph))
                trial.fail(what + ": two calls give different shapes, costs or gradients");
            const graph::OwnUse* use = own_use(first->graph);
            if (use == nullptr) continue;
            double stored_bytes = 0.0; // every element is stored once [operation.8], in at least 16 bits
            for (const auto& [kind, shape] : use->outputs) stored_bytes += 2.0 * static_cast<double>(shape.elements());
            if (use->bytes < stored_bytes)
                trial.fail(
                    fmt::format("{}: its cost is {} bytes, but its outputs alone have {}: leave it 0, or count what "
                                "is read and written",
                                what, use->bytes, stored_bytes));
            Shapes twice = all[i];
            for (Shape& shape : twice)
                if (shape.rank() > 0) {
                    std::vector<int64_t> dims = shape.vector();
                    dims[0] *= 2;
                    shape = Shape(dims);
                }
            const Result<Probe> larger = use_of(trial, own, twice);
            const graph::OwnUse* more = larger.ok() ? own_use(larger->graph) : nullptr;
            if (more != nullptr && (more->flops < use->flops || more->bytes < use->bytes))
                trial.fail(
                    fmt::format("{}: its cost falls when its tensors grow: {} FLOPs and {} bytes, then {} and {} "
                                "for {}",
                                what, use->flops, use->bytes, more->flops, more->bytes, shapes_text(twice)));
        }
    }
    return {};
}

Status test_operation_reference(Trial& trial) {
    HK_ASSIGN(const std::vector<Probe> all, operation_probes(trial));
    for (const Probe& probe : all) {
        const auto node =
            std::ranges::find_if(probe.graph.nodes, [](const graph::Node& one) { return one.own != nullptr; });
        const graph::OwnUse& use = *node->own;
        HK_ASSIGN(const hk_operation* table,
                  trial.registry().open<hk_operation>(HK_OPERATION_INTERFACE, use.operation->declaration().name));
        HK_ASSIGN(const std::vector<graph::Tensor> values, graph::evaluate(probe.graph, probe.feeds, node->inputs));
        std::vector<std::string> answers;
        for (int run = 0; run < 2; ++run) {
            std::vector<std::unique_ptr<Fenced>> memory;
            const auto fenced = [&](std::size_t elements) {
                memory.push_back(std::make_unique<Fenced>(elements * sizeof(double)));
                return reinterpret_cast<double*>(memory.back()->data());
            };
            std::vector<hk_operation_tensor> in, out;
            for (const graph::Tensor& value : values) {
                double* const data = fenced(value.data.size());
                if (data == nullptr) return out_of_memory("no memory for fences");
                std::ranges::copy(value.data, data);
                in.push_back(plugin::raw_tensor(value.kind, value.shape, data));
            }
            for (const auto& [kind, shape] : use.outputs) {
                double* const data = fenced(static_cast<std::size_t>(shape.elements()));
                if (data == nullptr) return out_of_memory("no memory for fences");
                out.push_back(plugin::raw_tensor(kind, shape, data));
            }
            const std::vector<hk_attribute> attributes = plugin::raw_attributes(node->attributes);
            const hk_operation_use raw = plugin::raw_use(in, attributes, out);
            hk_error error;
            trial.doing(probe.name + ": its reference, with a guard page after each tensor");
            const int32_t code = plugin::guarded(error, [&] { return table->reference(&raw, &error); });
            const Status status = plugin::status_of(code, error, probe.name + ": reference");
            if (!status.ok()) trial.fail(status.message());
            for (const auto& piece : memory)
                if (piece->touched_before())
                    trial.fail(probe.name + ": its reference writes before a tensor's beginning");
            std::string content;
            for (const hk_operation_tensor& tensor : out)
                content.append(
                    reinterpret_cast<const char*>(tensor.data),
                    static_cast<std::size_t>(Shape(std::span<const int64_t>(tensor.dims, tensor.rank)).elements()) *
                        sizeof(double));
            answers.push_back(std::move(content));
            for (std::size_t i = 0; i < values.size(); ++i)
                if (std::memcmp(in[i].data, values[i].data.data(), values[i].data.size() * sizeof(double)) != 0)
                    trial.fail(fmt::format("{}: its reference writes to input {}", probe.name, i));
        }
        if (answers[0] != answers[1])
            trial.fail(probe.name + ": its reference gives a different result the second time");
    }
    return {};
}

Status test_operation_gradient(Trial& trial) {
    HK_ASSIGN(const std::vector<Probe> all, operation_probes(trial));
    std::set<std::string> without;
    for (const Probe& probe : all) {
        trial.doing(probe.name + ": its gradient");
        const graph::OwnUse* use = own_use(probe.graph);
        if (probe.graph.losses.empty() || use == nullptr || use->gradient == nullptr) {
            if (use != nullptr && without.insert(use->operation->label()).second)
                trial.skip(use->operation->label() + ": has no gradient");
            continue;
        }
        HK_TRY(compare_with_differences(trial, probe));
    }
    return {};
}

Status test_operation_device(Trial& trial, program::Storage precision) {
    HK_ASSIGN(const std::vector<Probe> all, operation_probes(trial));
    if (all.empty()) return {};
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    if (precision != program::Storage::f32 && !runtime->limits().storage16)
        return Status(Code::cancelled, "the device here cannot store 16 bits");
    for (const Probe& probe : all) {
        HK_TRY(compare_outputs(trial, *runtime, probe, precision));
        const graph::OwnUse* use = own_use(probe.graph);
        if (!probe.graph.losses.empty() && use != nullptr && use->gradient != nullptr)
            HK_TRY(compare_gradients(trial, *runtime, probe, precision));
    }
    return {};
}

Status test_operation_order(Trial& trial) {
    HK_ASSIGN(const std::vector<Probe> all, operation_probes(trial));
    if (all.empty()) return {};
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    for (const Probe& probe : all) HK_TRY(compare_orders(trial, *runtime, probe));
    return {};
}

Status test_operation_bounds(Trial& trial) {
    HK_ASSIGN(const std::vector<Probe> all, operation_probes(trial));
    std::unique_ptr<program::Runtime> runtime;
    bool assisted = false;
    for (const Probe& probe : all) {
        const graph::OwnUse* use = own_use(probe.graph);
        const bool spirv = use != nullptr && use->operation->declaration().glsl.empty();
        if (runtime == nullptr || spirv != assisted) {
            runtime.reset();
            HK_ASSIGN(runtime, make_runtime(trial, {.assisted = spirv}));
            assisted = spirv;
        }
        HK_TRY(compare_outputs(trial, *runtime, probe, program::Storage::f32, true));
    }
    return {};
}

} // namespace hekla::check
