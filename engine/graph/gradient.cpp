#include "graph/gradient.hpp"

#include "graph/backward.hpp"
#include "graph/given_gradient.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

// Returns whether an operation has no gradient, whatever the kinds of its inputs.
bool stops(Op op) {
    switch (op) {
    case Op::sign:
    case Op::floor:
    case Op::round:
    case Op::compare:
    case Op::argmax:
    case Op::stop_gradient: return true;
    default: return false;
    }
}

} // namespace

Backward::Backward(Graph graph, const std::set<std::string, std::less<>>& frozen)
    : b_(std::move(graph)), active_(b_.graph().values.size(), false), gradients_(b_.graph().values.size(), kNone) {
    mark([&](const Node& node) { return node.op == Op::parameter && !frozen.contains(node.text("name")); });
}

Backward::Backward(Graph graph, ValueId from)
    : b_(std::move(graph)), again_(true), active_(b_.graph().values.size(), false),
      gradients_(b_.graph().values.size(), kNone) {
    mark([](const Node&) { return false; }, from);
}

void Backward::mark(const std::function<bool(const Node&)>& is_source, ValueId source) {
    if (source != kNone) active_[source] = true;
    for (const Node& node : b_.graph().nodes) {
        if (stops(node.op)) continue;
        const bool reached =
            is_source(node) || std::ranges::any_of(node.inputs, [&](ValueId input) { return active_[input]; });
        if (!reached) continue;
        const OperationInfo& o = info(node);
        for (std::size_t i = 0; i < node.outputs.size(); ++i)
            active_[node.outputs[i]] = is_float(b_.kind(node.outputs[i])) && !o.outputs[i].hidden;
    }
}

void Backward::enter(NodeId id) {
    node_ = b_.graph().nodes[id]; // a copy: emitting moves the nodes
    b_.set_scope(node_.scope);
}

bool Backward::any_dy() const {
    return std::ranges::any_of(node_.outputs, [&](ValueId output) { return gradients_[output] != kNone; });
}

void Backward::give(std::size_t input, ValueId gradient) {
    if (wants(input)) give_value(x(input), gradient);
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

ValueId Backward::number(ValueId like, double value) { return b_.fill(kind(like), Shape{}, value); }

ValueId Backward::sum(ValueId a, std::vector<int64_t> axes, bool keep) {
    return b_(Op::sum, {a}, {{"axes", std::move(axes)}, {"keep", int64_t{keep}}});
}

ValueId Backward::reshape(ValueId a, const Shape& to) {
    if (!b_.ok() || shape(a) == to) return a;
    return b_(Op::reshape, {a}, {{"shape", to.vector()}});
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
        if (!pointwise_gradient(backward) && !shape_gradient(backward) && !reduce_gradient(backward) &&
            !windows_gradient(backward) && !layer_gradient(backward) && !given_gradient(backward) &&
            !own_gradient(backward))
            b.fail(
                unsupported(fmt::format("{} has no gradient: what gradient_of returns cannot be differentiated again "
                                        "here; compose that layer of other operations, or use stop_gradient on the "
                                        "result",
                                        info(op).name)));
    }
}

Result<Graph> differentiate(Graph graph, const std::set<std::string, std::less<>>& frozen) {
    if (graph.losses.empty())
        return invalid_argument("this graph has no loss, so there is nothing to differentiate; an objective gives one");
    for (const LossTerm& loss : graph.losses)
        if (graph.shape(loss.sum).elements() != 1 || !is_float(graph.kind(loss.sum)))
            return invalid_argument(fmt::format("loss '{}' is {} {}; a loss is one floating number", loss.name,
                                                kind_name(graph.kind(loss.sum)), graph.shape(loss.sum).text()));
    const auto parameters = graph.parameters();
    const std::vector<LossTerm> losses = graph.losses;
    const auto node_count = static_cast<NodeId>(graph.nodes.size());
    Backward backward(std::move(graph), frozen);
    Builder& b = backward.builder();

    ValueId total = kNone;
    for (std::size_t i = 0; i < losses.size() && b.ok(); ++i) {
        const LossTerm& loss = losses[i];
        b.set_scope(b.graph().producer(loss.sum).scope);
        const ValueId scale = b.step_scalar(fmt::format("loss_scale.{}", i), 1.0);
        const ValueId sum = backward.cast(backward.reshape(loss.sum, Shape{}), Kind::float32);
        const ValueId term = backward.mul(scale, sum);
        total = total == kNone ? term : backward.add(total, term);
        b.output(fmt::format("loss_sum.{}", i), loss.sum);
        b.output(fmt::format("loss_count.{}", i), loss.count);
        if (b.ok() && backward.active(loss.sum))
            backward.give_value(loss.sum, backward.reshape(scale, backward.shape(loss.sum)));
    }
    b.output("loss", total);

    go_back(backward, node_count);
    for (const auto& [name, value] : parameters) {
        const ValueId gradient = backward.gradient(value);
        if (gradient != kNone && b.ok()) b.output("grad." + name, gradient);
    }
    b.set_scope(0);
    return b.finish();
}

} // namespace hekla::graph
