#include "graph/gradient/backward.hpp"

#include "graph/operations/rules.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

constexpr uint32_t kManyParts = 4; // slices or products whose gradients are joined

bool stops(Op op) { return rules_of(op).gradient == no_gradient; }

} // namespace

Backward::Backward(Graph graph, const std::set<std::string, std::less<>>& frozen)
    : b_(std::move(graph)), active_(b_.graph().values.size(), false), gradients_(b_.graph().values.size(), kNone) {
    for (const auto& [name, value] : b_.graph().parameters())
        if (!frozen.contains(name)) active_[value] = true;
    mark_dependents();
    count_parts();
}

Backward::Backward(Graph graph, ValueId from)
    : b_(std::move(graph)), again_(true), active_(b_.graph().values.size(), false),
      gradients_(b_.graph().values.size(), kNone) {
    active_[from] = true;
    mark_dependents();
    count_parts();
}

void Backward::mark_dependents() {
    for (const Node& node : b_.graph().nodes) {
        if (stops(node.op)) continue;
        if (std::ranges::none_of(node.inputs, [&](ValueId input) { return active_[input]; })) continue;
        const OperationInfo& o = info(node);
        for (std::size_t i = 0; i < node.outputs.size(); ++i)
            active_[node.outputs[i]] = is_float(b_.kind(node.outputs[i])) && !o.outputs[i].hidden;
    }
}

void Backward::count_parts() {
    readers_.assign(b_.graph().values.size(), 0);
    for (const Node& node : b_.graph().nodes) {
        if (node.op == Op::slice && node.integer("stride") == 1) ++readers_[node.inputs[0]];
        if (node.op == Op::linear || node.op == Op::matmul) ++readers_[node.inputs[1]];
    }
}

void Backward::enter(NodeId id) {
    node_ = b_.graph().nodes[id]; // a copy: emitting moves the nodes
    b_.set_scope(node_.scope);
    for (const ValueId output : node_.outputs) join_parts(output);
}

ValueId Backward::gradient(ValueId value) {
    join_parts(value);
    return gradients_[value];
}

bool Backward::any_dy() const {
    return std::ranges::any_of(node_.outputs, [&](ValueId output) { return gradients_[output] != kNone; });
}

void Backward::give(std::size_t input, ValueId gradient) {
    if (wants(input)) give_value(x(input), gradient);
}

int64_t Backward::wanted(std::size_t inputs) const {
    int64_t bits = 0;
    for (std::size_t i = 0; i < inputs; ++i) bits |= int64_t{wants(i)} << i;
    return bits;
}

void Backward::give_each(std::span<const ValueId> gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) give(i, gradients[i]);
}

void Backward::give_value(ValueId value, ValueId gradient) {
    if (!b_.ok() || gradient == kNone) return;
    gradient = reduce_to(gradient, shape(value));
    // Gradients of parameters accumulate in float32, which the optimizer reads.
    const bool parameter = b_.graph().producer(value).op == Op::parameter;
    gradient = cast(gradient, parameter ? Kind::float32 : kind(value));
    ValueId& total = gradients_[value];
    total = total == kNone ? gradient : add(total, gradient);
}

void Backward::give_slice(std::size_t input, ValueId dy, int64_t axis, int64_t start) {
    if (!wants(input) || !b_.ok()) return;
    const Slice slice{dy, axis, start};
    if (readers_[x(input)] >= kManyParts)
        parts_[x(input)].slices.push_back(slice);
    else
        give(input, unslice(x(input), slice));
}

void Backward::give_product(std::size_t input, ValueId a, ValueId b) {
    if (!wants(input) || !b_.ok()) return;
    const int64_t rows = shape(a)[0], k = shape(a)[1], n = shape(b)[1];
    const bool small = rows * (k + n) < k * n; // a and b, which are copied, are less than the product, which is added
    if (readers_[x(input)] >= kManyParts && small)
        parts_[x(input)].products.push_back({a, b});
    else
        give(input, reshape(matmul(a, b, true, false), shape(x(input))));
}

ValueId Backward::unslice(ValueId value, const Slice& slice) {
    return b_(Op::unslice, {slice.dy},
              {{"axis", slice.axis},
               {"start", slice.start},
               {"stride", int64_t{1}},
               {"length", shape(value)[static_cast<int>(slice.axis)]}});
}

void Backward::join_parts(ValueId value) {
    const auto found = parts_.find(value);
    if (found == parts_.end() || !b_.ok()) return;
    const Parts parts = std::move(found->second);
    parts_.erase(found);
    if (const ValueId all = joined_slices(value, parts.slices); all != kNone)
        give_value(value, all);
    else
        for (const Slice& slice : parts.slices) give_value(value, unslice(value, slice));
    std::map<std::pair<int64_t, int64_t>, std::vector<Product>> of_one_form; // a product's rows can be transposed
    for (const Product& product : parts.products)
        of_one_form[{shape(product.a)[1], shape(product.b)[1]}].push_back(product);
    for (const auto& [form, products] : of_one_form) give_value(value, joined_products(value, products));
}

ValueId Backward::joined_slices(ValueId value, std::vector<Slice> slices) {
    if (slices.size() < kManyParts) return kNone;
    const int64_t axis = slices.front().axis;
    std::ranges::sort(slices, {}, &Slice::start);
    std::vector<ValueId> all;
    int64_t end = 0;
    const auto fill_to = [&](int64_t start) {
        if (start == end) return;
        Shape gap = shape(value);
        gap[static_cast<int>(axis)] = start - end;
        all.push_back(b_.fill(kind(slices.front().dy), gap, 0.0));
    };
    for (const Slice& slice : slices) {
        if (slice.axis != axis || slice.start < end) return kNone;
        fill_to(slice.start);
        all.push_back(slice.dy);
        end = slice.start + shape(slice.dy)[static_cast<int>(axis)];
    }
    fill_to(shape(value)[static_cast<int>(axis)]);
    const NamedAttribute along[] = {{"axis", axis}};
    const std::vector<ValueId> joined = b_.emit(Op::concat, all, along);
    return joined.empty() ? kNone : joined[0];
}

ValueId Backward::joined_products(ValueId value, std::span<const Product> products) {
    const auto joined = [&](ValueId Product::*side) {
        std::vector<ValueId> rows;
        for (const Product& product : products) rows.push_back(product.*side);
        if (rows.size() == 1) return rows[0];
        const NamedAttribute along[] = {{"axis", int64_t{0}}};
        const std::vector<ValueId> all = b_.emit(Op::concat, rows, along);
        return all.empty() ? kNone : all[0];
    };
    const ValueId a = joined(&Product::a), b = joined(&Product::b);
    return b_.ok() ? reshape(matmul(a, b, true, false), shape(value)) : kNone;
}

ValueId Backward::number(ValueId like, double value) { return b_.fill(kind(like), Shape{}, value); }

ValueId Backward::sum(ValueId a, std::vector<int64_t> axes, bool keep) {
    return b_(Op::sum, {a}, {{"axes", std::move(axes)}, {"keep", int64_t{keep}}});
}

ValueId Backward::reshape(ValueId a, const Shape& to) {
    if (!b_.ok() || shape(a) == to) return a;
    return b_(Op::reshape, {a}, {{"shape", to.vector()}});
}

ValueId Backward::rows(ValueId a) {
    const Shape from = shape(a);
    int64_t count = 1;
    for (int axis = 0; axis + 1 < from.rank(); ++axis) count *= from[axis];
    return reshape(a, Shape{count, from[-1]});
}

ValueId Backward::broadcast(ValueId a, const Shape& to) {
    if (!b_.ok() || shape(a) == to) return a;
    return b_(Op::broadcast, {a}, {{"shape", to.vector()}});
}

ValueId Backward::cast(ValueId a, Kind to) {
    if (!b_.ok() || kind(a) == to) return a;
    return b_(Op::cast, {a}, {{"kind", static_cast<int64_t>(to)}});
}

ValueId Backward::reduce_to(ValueId a, const Shape& to) {
    if (!b_.ok() || shape(a) == to) return a;
    const Shape from = shape(a);
    std::vector<int64_t> axes;
    const int lead = from.rank() - to.rank();
    for (int axis = 0; axis < from.rank(); ++axis)
        if (axis < lead || (to[axis - lead] == 1 && from[axis] != 1)) axes.push_back(axis);
    return reshape(axes.empty() ? a : sum(a, axes, false), to);
}

void go_back(Backward& backward, NodeId end) {
    Builder& b = backward.builder();
    for (NodeId id = end; id-- > 0 && b.ok();) {
        backward.enter(id);
        const Op op = backward.node().op;
        if (is_leaf(op) || stops(op) || !backward.any_dy()) continue;
        bool wanted = false;
        for (std::size_t i = 0; i < backward.node().inputs.size(); ++i) wanted = wanted || backward.wants(i);
        if (!wanted) continue;
        const auto rule = rules_of(op).gradient;
        if (rule != nullptr)
            rule(backward);
        else
            b.fail(
                unsupported(fmt::format("{} has no gradient: what gradient_of returns cannot be differentiated again "
                                        "here; compose that layer of other operations, or use stop_gradient on the "
                                        "result",
                                        info(op).name)));
    }
}

} // namespace hekla::graph
