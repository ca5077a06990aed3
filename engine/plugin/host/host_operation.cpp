#include "plugin/host/host_operation.hpp"

#include "plugin/host/host_error.hpp"
#include "plugin/host/host_struct.hpp"

#include "graph/gradient/own_gradient.hpp"
#include "graph/rewrite.hpp"
#include "graph/tensor.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace hekla::plugin {
namespace {

using graph::AttributeType;
using graph::AttributeValue;
using graph::Kind;
using graph::kNone;
using graph::Shape;
using graph::ValueId;

Result<graph::OwnDeclaration> read_description(const hk_operation_description* given, const std::string& name) {
    const auto bad = [&](const std::string& what) {
        return corrupt(fmt::format("operation '{}': its description {}", name, what));
    };
    const std::optional<hk_operation_description> whole = struct_of(given);
    if (!whole) return bad("is null or has a struct_size of another version");
    const hk_operation_description& d = *whole;
    if (d.reserved != 0) return bad("has a reserved member that is not 0");
    if ((d.input_count > 0 && d.inputs == nullptr) || (d.attribute_count > 0 && d.attributes == nullptr) ||
        (d.output_count > 0 && d.outputs == nullptr) || (d.spirv_count > 0 && d.spirv == nullptr))
        return bad("has a null array with a count above 0");
    constexpr uint32_t kMost = 256; // OwnOperation::create has the limits; this only bounds loops over a damaged count
    if (d.input_count > kMost || d.attribute_count > kMost || d.output_count > kMost || d.spirv_count > (1u << 20))
        return bad("has counts that cannot be");
    graph::OwnDeclaration out;
    out.name = name;
    out.revision = d.revision;
    for (uint32_t i = 0; i < d.input_count; ++i) {
        const std::optional<hk_operation_input> input = struct_at(d.inputs, i);
        if (!input || (input->kind != HK_KIND_FLOAT && input->kind != HK_KIND_INT32))
            return bad(fmt::format("has an input {} with a wrong struct_size or kind", i));
        out.inputs.push_back({std::string(view(input->name)), input->kind == HK_KIND_INT32});
    }
    for (uint32_t i = 0; i < d.attribute_count; ++i) {
        const std::optional<hk_operation_attribute> attribute = struct_at(d.attributes, i);
        if (!attribute || attribute->type < HK_ATTRIBUTE_INT || attribute->type > HK_ATTRIBUTE_REALS)
            return bad(fmt::format("has an attribute {} with a wrong struct_size or type", i));
        graph::OwnDeclaration::Attribute a{
            std::string(view(attribute->name)), static_cast<AttributeType>(attribute->type), {}};
        if (attribute->fallback != nullptr) {
            const std::optional<hk_attribute> fallback = struct_of(attribute->fallback);
            if (!fallback) return bad(fmt::format("has an attribute {} whose fallback has a wrong struct_size", i));
            Result<AttributeValue> value = read_attribute(*fallback);
            if (!value.ok()) return value.status().with_context(fmt::format("operation '{}'", name));
            a.fallback = value.take();
        }
        out.attributes.push_back(std::move(a));
    }
    for (uint32_t i = 0; i < d.output_count; ++i) out.outputs.emplace_back(view(d.outputs[i]));
    out.local_size = d.local_size;
    out.glsl = view(d.glsl);
    out.glsl_file = view(d.glsl_file);
    out.glsl_line = d.glsl_line;
    out.spirv.assign(d.spirv, d.spirv + d.spirv_count);
    return out;
}

graph::OwnReference reference_of(const hk_operation* table, const std::string& name) {
    return [table, name](std::span<const graph::Tensor* const> inputs, std::span<const graph::Attribute> attributes,
                         std::span<graph::Tensor> outputs) -> Status {
        std::vector<hk_operation_tensor> in, out;
        for (const graph::Tensor* tensor : inputs)
            in.push_back(raw_tensor(tensor->kind, tensor->shape, tensor->data.data()));
        for (graph::Tensor& tensor : outputs) out.push_back(raw_tensor(tensor.kind, tensor.shape, tensor.data.data()));
        const std::vector<hk_attribute> values = raw_attributes(attributes);
        const hk_operation_use use = raw_use(in, values, out);
        hk_error error;
        return status_of(guarded(error, [&] { return table->reference(&use, &error); }), error, name + ": reference");
    };
}

// Checks kinds and number of inputs, with the same messages as the table's rules.
Status check_inputs(const graph::Graph& graph, const graph::OwnDeclaration& d, std::span<const ValueId> inputs) {
    if (inputs.size() > d.inputs.size())
        return invalid_argument(fmt::format("{}: {} inputs, {} are expected", d.name, inputs.size(), d.inputs.size()));
    for (std::size_t i = 0; i < d.inputs.size(); ++i) {
        const auto& [name, integer] = d.inputs[i];
        if (i >= inputs.size() || inputs[i] == kNone)
            return invalid_argument(fmt::format("{}: input {} is missing", d.name, name));
        if (graph::is_float(graph.kind(inputs[i])) == integer)
            return invalid_argument(fmt::format("{}: {} is {}, expected {}", d.name, name,
                                                graph::kind_name(graph.kind(inputs[i])),
                                                integer ? "int32" : "float (use cast)"));
    }
    return {};
}

// Asks the plugin for the outputs and cost of this use.
Status ask_shapes(const OwnOperations& own, const OwnOperations::Known& known,
                  std::span<const hk_operation_tensor> inputs, std::span<const hk_attribute> attributes,
                  graph::OwnUse& use) {
    const graph::OwnDeclaration& d = known.operation->declaration();
    std::vector<hk_operation_tensor> outputs(d.outputs.size(), raw_tensor(Kind::float_, Shape{}, nullptr));
    hk_operation_cost cost{};
    cost.struct_size = sizeof cost;
    const hk_operation_use raw = raw_use(inputs, attributes, outputs);
    hk_error error;
    HK_TRY(status_of(own.call(known.id, "shape", error, [&] { return known.table->shape(&raw, &cost, &error); }), error,
                     d.name));
    if (cost.reserved != 0)
        return corrupt(fmt::format("{}: its shape rule sets a reserved member of the cost", d.name));
    double elements = 0, bytes = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const hk_operation_tensor& out = outputs[i];
        if (out.kind < HK_KIND_FLOAT || out.kind > HK_KIND_INT32 || out.rank > HK_MAX_RANK)
            return corrupt(fmt::format("{}: its shape rule gives output '{}' kind {} and rank {}", d.name, d.outputs[i],
                                       out.kind, out.rank));
        use.outputs.emplace_back(static_cast<Kind>(out.kind), Shape(std::span<const int64_t>(out.dims, out.rank)));
    }
    HK_TRY(check_own_use(use)); // checks sizes before element counts are computed
    for (const auto& [kind, shape] : use.outputs) elements += static_cast<double>(shape.elements());
    for (const Shape& shape : use.inputs) bytes += 4.0 * static_cast<double>(shape.elements());
    const uint64_t group = std::max<uint32_t>(1, d.local_size);
    const uint64_t first = static_cast<uint64_t>(use.outputs[0].second.elements());
    const uint64_t invocations = cost.invocations > 0 ? cost.invocations : (first + group - 1) / group * group;
    use.invocations = static_cast<int64_t>(std::min<uint64_t>(invocations, std::numeric_limits<int64_t>::max()));
    use.flops = cost.flops != 0 ? cost.flops : elements;
    use.bytes = cost.bytes != 0 ? cost.bytes : bytes + 4.0 * elements;
    return check_own_use(use);
}

// Describes the gradient of this use as a separate graph.
Status ask_gradient(const Joint& joint, uint32_t tag, const OwnOperations::Known& known,
                    std::span<const ValueId> inputs, std::span<const hk_attribute> attributes, graph::OwnUse& use) {
    const graph::OwnDeclaration& d = known.operation->declaration();
    Joint inner;
    inner.mode = joint.mode;
    inner.own = joint.own;
    inner.in_gradient = true;
    uint32_t own_tag = next_tag();
    while (own_tag == tag) own_tag = next_tag();
    hk_builder view(inner, own_tag);
    graph::Builder& b = inner.builder;
    std::vector<hk_value> xs, ys, dys, dxs(inputs.size(), 0);
    for (std::size_t i = 0; i < inputs.size(); ++i)
        xs.push_back(handle_of(
            &view, b.input(graph::kOwnInput + d.inputs[i].name, joint.builder.kind(inputs[i]), use.inputs[i])));
    for (std::size_t i = 0; i < use.outputs.size(); ++i) {
        const auto& [kind, shape] = use.outputs[i];
        ys.push_back(handle_of(&view, b.input(graph::kOwnOutput + d.outputs[i], kind, shape)));
        dys.push_back(graph::is_float(kind)
                          ? handle_of(&view, b.input(graph::kOwnOutputGradient + d.outputs[i], kind, shape))
                          : 0);
    }
    hk_operation_gradient raw{};
    raw.struct_size = sizeof raw;
    raw.input_count = static_cast<uint32_t>(xs.size());
    raw.attribute_count = static_cast<uint32_t>(attributes.size());
    raw.output_count = static_cast<uint32_t>(ys.size());
    raw.inputs = xs.data();
    raw.attributes = attributes.data();
    raw.outputs = ys.data();
    raw.output_gradients = dys.data();
    raw.input_gradients = dxs.data();
    hk_error error;
    const int32_t code =
        joint.own->call(known.id, "gradient", error, [&] { return known.table->gradient(&view, &raw, &error); });
    const std::string what = d.name + ": gradient";
    if (!b.ok()) return status_of(b.status(), code, error, what);
    HK_TRY(status_of(code, error, what));
    if (view.open_scopes != 0 || view.open_region)
        return failed_precondition(what + ": a scope or region is still open");
    if (!inner.ports.empty()) return invalid_argument(what + ": it offers a port");
    for (std::size_t i = 0; i < dxs.size(); ++i) {
        const ValueId dx = value_of(&view, dxs[i], "gradient");
        if (dx != kNone) b.output(graph::kOwnInputGradient + d.inputs[i].name, dx);
    }
    Result<graph::Graph> described = b.finish();
    if (!described.ok()) return described.status().with_context(what);
    HK_ASSIGN(graph::Graph pruned, graph::prune(described.value()));
    HK_TRY(check_own_gradient(use, pruned));
    use.gradient = std::make_shared<const graph::Graph>(std::move(pruned));
    return {};
}

Result<std::vector<ValueId>> try_emit_own(Joint& joint, uint32_t tag, const OwnOperations::Known& known,
                                          std::span<const ValueId> inputs,
                                          std::span<const graph::NamedAttribute> given) {
    const graph::OwnDeclaration& d = known.operation->declaration();
    HK_TRY(check_inputs(joint.builder.graph(), d, inputs));
    Result<std::vector<graph::Attribute>> attributes = complete_attributes(known.operation->info(), given);
    if (!attributes.ok()) return attributes.status().with_context(d.name);
    const std::vector<hk_attribute> values = raw_attributes(attributes.value());
    graph::OwnUse use;
    use.operation = known.operation;
    std::vector<hk_operation_tensor> tensors;
    for (const ValueId input : inputs) {
        use.inputs.push_back(joint.builder.shape(input));
        tensors.push_back(raw_tensor(joint.builder.kind(input), use.inputs.back(), nullptr));
    }
    HK_TRY(ask_shapes(*joint.own, known, tensors, values, use));
    const bool may_be_differentiated = joint.mode == HK_MODE_TRAIN || joint.mode == HK_MODE_EVALUATE;
    if (may_be_differentiated && !joint.in_gradient && known.table->gradient != nullptr)
        HK_TRY(ask_gradient(joint, tag, known, inputs, values, use));
    return joint.builder.emit_own(std::make_shared<const graph::OwnUse>(std::move(use)), inputs, given);
}

} // namespace

Result<graph::AttributeValue> read_attribute(const hk_attribute& a) {
    switch (a.type) {
    case HK_ATTRIBUTE_INT: return graph::AttributeValue(a.integer);
    case HK_ATTRIBUTE_REAL: return graph::AttributeValue(a.real);
    case HK_ATTRIBUTE_TEXT: return graph::AttributeValue(std::string(view(a.text)));
    case HK_ATTRIBUTE_INTS:
        if (a.count > 0 && a.integers == nullptr) break;
        return graph::AttributeValue(std::vector<int64_t>(a.integers, a.integers + a.count));
    case HK_ATTRIBUTE_REALS:
        if (a.count > 0 && a.reals == nullptr) break;
        return graph::AttributeValue(std::vector<double>(a.reals, a.reals + a.count));
    default: break;
    }
    return invalid_argument(fmt::format("attribute {} has type {} or no values", view(a.name), a.type));
}

std::vector<hk_attribute> raw_attributes(std::span<const graph::Attribute> attributes) {
    std::vector<hk_attribute> out;
    for (const graph::Attribute& a : attributes) {
        hk_attribute raw{};
        raw.struct_size = sizeof raw;
        raw.type = static_cast<int32_t>(a.value.index());
        raw.name = {a.name, std::string_view(a.name).size()};
        if (const auto* integer = std::get_if<int64_t>(&a.value)) raw.integer = *integer;
        if (const auto* real = std::get_if<double>(&a.value)) raw.real = *real;
        if (const auto* text = std::get_if<std::string>(&a.value)) raw.text = {text->data(), text->size()};
        if (const auto* integers = std::get_if<std::vector<int64_t>>(&a.value)) {
            raw.integers = integers->data();
            raw.count = integers->size();
        }
        if (const auto* reals = std::get_if<std::vector<double>>(&a.value)) {
            raw.reals = reals->data();
            raw.count = reals->size();
        }
        out.push_back(raw);
    }
    return out;
}

hk_operation_tensor raw_tensor(Kind kind, const Shape& shape, const double* data) {
    hk_operation_tensor raw{};
    raw.struct_size = sizeof raw;
    raw.kind = static_cast<int32_t>(kind);
    raw.rank = static_cast<uint32_t>(shape.rank());
    std::ranges::copy(shape.dims(), raw.dims);
    raw.data = const_cast<double*>(data); // the ABI forbids writing to inputs
    return raw;
}

hk_operation_use raw_use(std::span<const hk_operation_tensor> inputs, std::span<const hk_attribute> attributes,
                         std::span<hk_operation_tensor> outputs) {
    hk_operation_use use{};
    use.struct_size = sizeof use;
    use.input_count = static_cast<uint32_t>(inputs.size());
    use.attribute_count = static_cast<uint32_t>(attributes.size());
    use.output_count = static_cast<uint32_t>(outputs.size());
    use.inputs = inputs.data();
    use.attributes = attributes.data();
    use.outputs = outputs.data();
    return use;
}

Result<const OwnOperations::Known*> OwnOperations::load(const std::string& id, const std::string& name) {
    const auto found = known_.find(id);
    if (found != known_.end()) return &found->second;
    HK_ASSIGN(const hk_operation* table, find_(id));
    if (table->describe == nullptr || table->shape == nullptr || table->reference == nullptr)
        return corrupt(fmt::format("operation '{}': describe, shape or reference is null; only gradient may be", id));
    const hk_operation_description* described = nullptr;
    hk_error error;
    HK_TRY(status_of(call(id, "describe", error,
                          [&] {
                              described = table->describe();
                              return HK_OK;
                          }),
                     error, fmt::format("operation '{}'", id)));
    HK_ASSIGN(graph::OwnDeclaration declaration, read_description(described, name));
    declaration.reference = reference_of(table, name);
    Known known;
    known.id = id;
    known.table = table;
    HK_ASSIGN(known.operation, graph::OwnOperation::create(std::move(declaration)));
    return &known_.emplace(id, std::move(known)).first->second;
}

Result<const OwnOperations::Known*> OwnOperations::find(const std::string& name, uint32_t revision) {
    HK_ASSIGN(const Known* newest, load(name, name));
    const uint32_t have = newest->operation->declaration().revision;
    if (revision == have) return newest;
    const std::string id = fmt::format("{}/{}", name, revision);
    const Result<const Known*> older = load(id, name);
    if (older.ok() && older.value()->operation->declaration().revision == revision) return older.value();
    if (older.ok())
        return corrupt(fmt::format("operation '{}' describes itself as revision {}", id,
                                   older.value()->operation->declaration().revision));
    if (older.code() != Code::not_found) return older.status();
    return unsupported(fmt::format("{}: revision {} was asked for, its plugin has {}: emit that one, or offer '{}' too",
                                   name, revision, have, id));
}

uint32_t OwnOperations::newest_revision(const std::string& name) {
    const Result<const Known*> found = load(name, name);
    return found.ok() ? found.value()->operation->declaration().revision : 0;
}

std::vector<ValueId> emit_own(Joint& joint, uint32_t tag, const OwnOperations::Known& known,
                              std::span<const ValueId> inputs, std::span<const graph::NamedAttribute> attributes) {
    if (!joint.builder.ok()) return {};
    Result<std::vector<ValueId>> made = try_emit_own(joint, tag, known, inputs, attributes);
    if (made.ok()) return made.take();
    joint.builder.fail(made.status());
    return {};
}

} // namespace hekla::plugin
