#include "graph/operations/gradient_of.hpp"

#include "graph/gradient/backward.hpp"
#include "graph/operations/loop.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"

#include <algorithm>

namespace hekla::graph {
namespace {

// Whether an operation of a loop is among those that the value is computed from.
bool comes_from_loop(const Graph& graph, ValueId value) {
    if (std::ranges::none_of(graph.nodes, is_loop_operation, &Node::op)) return false;
    std::vector<bool> from_loop(graph.values.size(), false);
    for (const Node& node : graph.nodes) {
        bool from = is_loop_operation(node.op);
        for (const ValueId input : node.inputs) from = from || from_loop[input];
        for (const ValueId output : node.outputs) from_loop[output] = from;
    }
    return from_loop[value];
}

} // namespace

bool waits_for_loops(const Builder& builder, const Node& node) {
    return node.op == Op::gradient_of && comes_from_loop(builder.graph(), node.inputs[0]);
}

namespace {

Result<Outputs> gradient_of_outputs(const Rule& r) { return one(r.kind(1), r.shape(1)); }

std::vector<ValueId> expand_gradient_of(Builder& builder, const Node& node) {
    const ValueId y = node.inputs[0], x = node.inputs[1];
    const Kind kind = builder.kind(x);
    const auto end = static_cast<NodeId>(builder.graph().nodes.size());
    // The rules emit into a builder of their own, so that this one's scopes and region stay as they are.
    Backward backward(std::move(builder.mutable_graph()), x);
    Builder& inner = backward.builder();
    const bool depends = backward.active(y);
    ValueId dx = kNone;
    if (depends) {
        inner.set_region(builder.region());
        backward.give_value(y, inner.fill(inner.kind(y), inner.shape(y), 1.0));
        go_back(backward, end);
        if (inner.ok()) dx = backward.gradient(x);
        if (dx != kNone) dx = backward.cast(dx, kind);
    }
    const Status status = inner.status();
    builder.mutable_graph() = std::move(inner.mutable_graph());
    if (!status.ok()) {
        builder.fail(status);
    } else if (dx == kNone) {
        builder.fail(
            invalid_argument("gradient_of: y does not depend on x in a way that has a gradient; expected an x that "
                             "y is computed from"));
    } else {
        return {dx};
    }
    return {};
}

} // namespace

const OperationRules gradient_of_rules{gradient_of_outputs, nullptr, nullptr, expand_gradient_of};

} // namespace hekla::graph
