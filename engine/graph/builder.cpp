#include "graph/builder.hpp"

#include "graph/gradient/incoming_gradient.hpp"

#include "base/hash.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

// The random stream of a dropout or random operation depends on its scope, not on the order of description.
constexpr const char* kStream = "stream";

} // namespace

void Builder::fail(const Status& status) {
    if (!status_.ok() || status.ok()) return;
    const std::string path = graph_.scope_path(scope_);
    status_ = path.empty() ? status : Status(status.code(), fmt::format("{}; in {}", status.message(), path));
}

std::vector<ValueId> Builder::append(Node node, std::span<const std::pair<Kind, Shape>> outputs) {
    const NodeId id = static_cast<NodeId>(graph_.nodes.size());
    node.scope = scope_;
    node.region = region_;
    for (const auto& [kind, shape] : outputs) {
        node.outputs.push_back(static_cast<ValueId>(graph_.values.size()));
        graph_.values.push_back({id, static_cast<uint32_t>(node.outputs.size() - 1), kind, shape});
    }
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs;
}

std::vector<ValueId> Builder::emit(Op op, std::span<const ValueId> inputs, std::span<const NamedAttribute> attributes) {
    if (!ok()) return {};
    if (op == Op::one_hot) return emit_one_hot(inputs, attributes);
    Node node;
    node.op = op;
    return emit(std::move(node), inputs, attributes);
}

std::vector<ValueId> Builder::emit_own(std::shared_ptr<const OwnUse> use, std::span<const ValueId> inputs,
                                       std::span<const NamedAttribute> attributes) {
    if (!ok()) return {};
    Node node;
    node.op = Op::own;
    node.own = std::move(use);
    return emit(std::move(node), inputs, attributes);
}

Result<std::vector<Attribute>> complete_attributes(const OperationInfo& o, std::span<const NamedAttribute> given) {
    std::vector<Attribute> attributes;
    for (const AttributeInfo& wanted : o.attributes) {
        const NamedAttribute* found = nullptr;
        for (const NamedAttribute& attribute : given)
            if (attribute.name == wanted.name) found = &attribute;
        if (found != nullptr) {
            if (found->value.index() != static_cast<std::size_t>(wanted.type))
                return invalid_argument(fmt::format("attribute {} has the wrong type", wanted.name));
            if (const double* real = std::get_if<double>(&found->value); real != nullptr && std::isnan(*real))
                return invalid_argument(fmt::format("attribute {} is not a number", wanted.name));
            attributes.push_back({wanted.name, found->value});
        } else if (wanted.fallback) {
            attributes.push_back({wanted.name, *wanted.fallback});
        } else {
            return invalid_argument(fmt::format("attribute {} is missing", wanted.name));
        }
    }
    for (const NamedAttribute& attribute : given)
        if (std::ranges::none_of(o.attributes, [&](const AttributeInfo& a) { return attribute.name == a.name; }))
            return invalid_argument(fmt::format("there is no attribute {}", attribute.name));
    return attributes;
}

std::vector<NamedAttribute> attributes_of(const Node& node) {
    std::vector<NamedAttribute> attributes;
    for (const Attribute& attribute : node.attributes) attributes.push_back({attribute.name, attribute.value});
    return attributes;
}

std::vector<ValueId> Builder::emit_one_hot(std::span<const ValueId> inputs,
                                           std::span<const NamedAttribute> attributes) {
    const auto refuse = [&](const std::string& what) {
        fail(invalid_argument("one_hot: " + what));
        return std::vector<ValueId>{};
    };
    Result<std::vector<Attribute>> complete = complete_attributes(info(Op::one_hot), attributes);
    if (!complete.ok()) return refuse(complete.message());
    const int64_t size = std::get<int64_t>(complete.value()[0].value);
    if (inputs.size() != 1 || inputs[0] == kNone || inputs[0] >= graph_.values.size())
        return refuse("expected one input, the indices");
    Shape column = shape(inputs[0]);
    if (kind(inputs[0]) != Kind::int32) return refuse("indices are float, expected int32");
    if (column.rank() == kMaxRank) return refuse(fmt::format("indices {} have too many dimensions", column.text()));
    if (size < 1) return refuse(fmt::format("size is {}, expected at least 1", size));
    column.push_back(1);
    const ValueId reshaped = (*this)(Op::reshape, {inputs[0]}, {{"shape", column.vector()}});
    const ValueId inputs_of_compare[] = {reshaped, iota(size)};
    const NamedAttribute equal[] = {{"relation", static_cast<int64_t>(Relation::equal)}};
    return emit(Op::compare, inputs_of_compare, equal);
}

std::vector<ValueId> Builder::emit(Node node, std::span<const ValueId> inputs,
                                   std::span<const NamedAttribute> attributes) {
    const OperationInfo& o = info(node);
    const bool variadic = !o.inputs.empty() && o.inputs[0].variadic;
    node.inputs.assign(inputs.begin(), inputs.end());
    const auto refuse = [&](const std::string& what) {
        fail(invalid_argument(fmt::format("{}: {}", o.name, what)));
        return std::vector<ValueId>{};
    };
    for (const ValueId input : inputs)
        if (input >= graph_.values.size()) return refuse("an input that this graph does not have");
    if (variadic) {
        if (inputs.empty()) return refuse("needs at least one input");
    } else {
        if (inputs.size() > o.inputs.size())
            return refuse(fmt::format("{} inputs, at most {} are possible", inputs.size(), o.inputs.size()));
        node.inputs.resize(o.inputs.size(), kNone);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] == kNone && (variadic || !o.inputs[i].optional))
            return refuse(fmt::format("input {} is missing", o.inputs[variadic ? 0 : i].name));
    Result<std::vector<Attribute>> complete = complete_attributes(o, attributes);
    if (!complete.ok()) return refuse(complete.message());
    node.attributes = complete.take();
    for (Attribute& attribute : node.attributes) {
        if (node.own != nullptr || std::string_view(attribute.name) != kStream ||
            std::get<int64_t>(attribute.value) != -1)
            continue;
        const std::string path = graph_.scope_path(scope_);
        const int64_t count = streams_[path]++;
        const uint64_t hash = hash64(path, static_cast<uint64_t>(count));
        attribute.value = static_cast<int64_t>(hash & 0x7fffffff); // fits the shaders' 32-bit word
    }
    Result<std::vector<std::pair<Kind, Shape>>> inferred = infer_outputs(graph_, node);
    if (!inferred.ok()) {
        fail(inferred.status());
        return {};
    }
    if (expands_now(*this, node)) return expand(*this, node);
    return append(std::move(node), inferred.value());
}

ValueId Builder::operator()(Op op, std::initializer_list<ValueId> inputs,
                            std::initializer_list<NamedAttribute> attributes) {
    const std::vector<ValueId> outputs =
        emit(op, {inputs.begin(), inputs.size()}, {attributes.begin(), attributes.size()});
    return outputs.empty() ? kNone : outputs[0];
}

ValueId Builder::leaf(Op op, std::initializer_list<NamedAttribute> attributes, Kind kind, const Shape& shape) {
    const char* name_attribute = leaf_name_attribute(op);
    std::string name;
    for (const NamedAttribute& attribute : attributes)
        if (name_attribute != nullptr && attribute.name == name_attribute)
            name = std::get<std::string>(attribute.value);
    if (name_attribute == nullptr) return (*this)(op, {}, attributes);
    if (!ok()) return kNone;
    if (name.empty()) {
        fail(invalid_argument(fmt::format("{}: the name is empty", info(op).name)));
        return kNone;
    }
    // A builder that continues a graph registers the leaves that are already in it.
    if (leaves_.empty())
        for (const Node& node : graph_.nodes)
            if (const char* key = leaf_name_attribute(node.op)) leaves_[{node.op, node.text(key)}] = node.outputs[0];
    if (const auto found = leaves_.find({op, name}); found != leaves_.end()) {
        const Value& value = graph_.value(found->second);
        if (value.kind != kind || !(value.shape == shape)) {
            fail(invalid_argument(fmt::format("{} '{}' is {} {} and was {} {} when it was first asked for",
                                              info(op).name, name, kind_name(kind), shape.text(), kind_name(value.kind),
                                              value.shape.text())));
            return kNone;
        }
        for (const NamedAttribute& attribute : attributes)
            if (attribute.name == "flags" &&
                std::get<int64_t>(attribute.value) != graph_.nodes[value.node].integer("flags")) {
                fail(invalid_argument(
                    fmt::format("{} '{}' has other flags than when it was first asked for", info(op).name, name)));
                return kNone;
            }
        return found->second;
    }
    const ValueId value = (*this)(op, {}, attributes);
    if (value != kNone) leaves_[{op, name}] = value;
    return value;
}

ValueId Builder::input(const std::string& field, Kind kind, const Shape& shape) {
    return leaf(Op::input, {{"field", field}, {"kind", static_cast<int64_t>(kind)}, {"shape", shape.vector()}}, kind,
                shape);
}

ValueId Builder::parameter(const std::string& name, const Shape& shape, int64_t initializer, double a, double b,
                           uint32_t flags) {
    return leaf(Op::parameter,
                {{"name", name},
                 {"shape", shape.vector()},
                 {"initializer", initializer},
                 {"a", a},
                 {"b", b},
                 {"flags", static_cast<int64_t>(flags)}},
                Kind::float_, shape);
}

ValueId Builder::buffer(const std::string& name, Kind kind, const Shape& shape, std::vector<double> value) {
    return leaf(
        Op::buffer,
        {{"name", name}, {"kind", static_cast<int64_t>(kind)}, {"shape", shape.vector()}, {"value", std::move(value)}},
        kind, shape);
}

ValueId Builder::constant(Kind kind, const Shape& shape, std::vector<double> value) {
    return leaf(Op::constant,
                {{"kind", static_cast<int64_t>(kind)}, {"shape", shape.vector()}, {"value", std::move(value)}}, kind,
                shape);
}

ValueId Builder::fill(Kind kind, const Shape& shape, double value) {
    return leaf(Op::fill, {{"kind", static_cast<int64_t>(kind)}, {"shape", shape.vector()}, {"value", value}}, kind,
                shape);
}

ValueId Builder::iota(int64_t length, int64_t start, int64_t step) {
    return leaf(Op::iota, {{"length", length}, {"start", start}, {"step", step}}, Kind::int32, Shape{length});
}

ValueId Builder::positions(int64_t batch, int64_t length) {
    return leaf(Op::positions, {{"batch", batch}, {"length", length}}, Kind::int32, Shape{batch, length});
}

ValueId Builder::step_scalar(const std::string& name, double initial) {
    return leaf(Op::step_scalar, {{"name", name}, {"initial", initial}}, Kind::float32, Shape{});
}

void Builder::scope_begin(const std::string& name) {
    graph_.scopes.push_back({scope_, name});
    scope_ = static_cast<ScopeId>(graph_.scopes.size() - 1);
}

void Builder::scope_end() {
    if (scope_ == 0)
        fail(failed_precondition("scope_end without a scope_begin"));
    else
        scope_ = graph_.scopes[scope_].parent;
}

void Builder::recompute_begin() {
    if (region_ != 0) return fail(failed_precondition("recompute regions do not nest"));
    if (regions_ == 0) // a builder that continues a graph numbers its regions after the existing ones
        for (const Node& node : graph_.nodes) regions_ = std::max(regions_, node.region);
    region_ = ++regions_;
}

void Builder::recompute_end() {
    if (region_ == 0) return fail(failed_precondition("recompute_end without a recompute_begin"));
    region_ = 0;
}

void Builder::output(const std::string& name, ValueId value) {
    if (!ok()) return;
    if (value == kNone || value >= graph_.values.size())
        return fail(invalid_argument(fmt::format("output '{}' is not a value", name)));
    graph_.outputs[name] = value;
}

void Builder::loss(const std::string& name, ValueId sum, ValueId count, double weight) {
    if (!ok()) return;
    for (const ValueId value : {sum, count}) {
        if (value == kNone || value >= graph_.values.size())
            return fail(invalid_argument(fmt::format("loss '{}' is not a value", name)));
        if (shape(value).rank() != 0)
            return fail(invalid_argument(fmt::format("loss '{}': {} is {}, expected a scalar []", name,
                                                     value == sum ? "sum" : "count", shape(value).text())));
    }
    if (!is_float(kind(sum)))
        return fail(invalid_argument(fmt::format("loss '{}': sum is int32, expected float", name)));
    // count must be known before the first micro-batch, so it can depend only on fields and constants
    std::vector<bool> seen(graph_.nodes.size(), false);
    std::vector<NodeId> open{graph_.value(count).node};
    while (!open.empty()) {
        const NodeId id = open.back();
        open.pop_back();
        if (seen[id]) continue;
        seen[id] = true;
        const Node& node = graph_.nodes[id];
        if (node.op == Op::parameter || node.op == Op::step_scalar || is_random(node))
            return fail(invalid_argument(fmt::format("loss '{}': count depends on a {}; it must depend on fields alone",
                                                     name, info(node.op).name)));
        for (const ValueId input : node.inputs)
            if (input != kNone) open.push_back(graph_.value(input).node);
    }
    graph_.losses.push_back({name, sum, count, weight});
}

void Builder::metric(const std::string& name, ValueId sum, ValueId count) {
    if (!ok()) return;
    for (const ValueId value : {sum, count})
        if (value == kNone || value >= graph_.values.size() || shape(value).rank() != 0)
            return fail(invalid_argument(fmt::format("metric '{}': sum and count must be scalars []", name)));
    graph_.metrics.push_back({name, sum, count});
}

Result<Graph> Builder::finish(std::span<std::size_t> counts) {
    if (!ok()) return status_;
    if (scope_ != 0) return failed_precondition(fmt::format("scope '{}' is still open", graph_.scope_path(scope_)));
    if (region_ != 0) return failed_precondition("a recompute region is still open");
    HK_ASSIGN(Graph unrolled, unroll_loops(std::move(graph_), counts));
    HK_TRY(check_incoming_gradients(unrolled));
    return unrolled;
}

} // namespace hekla::graph
