// incoming_gradient and with_gradient: a value whose gradient a plugin describes itself, for the operations that
// computed it.
#include "graph/gradient/backward.hpp"
#include "graph/gradient/incoming_gradient.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"
#include "graph/rewrite.hpp"

#include <numeric>

namespace hekla::graph {
namespace {

// with_gradient's inputs: y, the incoming gradient, then pairs of x and its gradient.
constexpr std::size_t kIncoming = 1, kFirstPair = 2;

Result<Outputs> with_gradient_outputs(const Rule& r) {
    const std::size_t count = r.node.inputs.size();
    if (count < 4 || count % 2 != 0)
        return r.error("{} parts, expected y, its incoming gradient, and pairs of an x and the gradient of that x",
                       count);
    const Op made_by = r.graph.producer(r.node.inputs[kIncoming]).op;
    if (made_by != Op::incoming_gradient)
        return r.error("its second part is a result of {}, expected one of incoming_gradient", info(made_by).name);
    if (!(r.shape(kIncoming) == r.shape(0)))
        return r.error("the incoming gradient is {} and y is {}, expected incoming_gradient(y)", r.text(kIncoming),
                       r.text(0));
    for (std::size_t i = kFirstPair; i < count; i += 2) {
        if (!(r.shape(i) == r.shape(i + 1)))
            return r.error("part {} is {} and its gradient {}, expected the same shape", i, r.text(i), r.text(i + 1));
        for (std::size_t j = kFirstPair; j < i; j += 2)
            if (r.node.inputs[j] == r.node.inputs[i])
                return r.error("part {} is the same value as part {}; expected one gradient for each", i, j);
    }
    return one(r.kind(0), r.shape(0));
}

void with_gradient_gradient(Backward& backward) {
    const Node node = backward.node();
    Builder& b = backward.builder();
    const ValueId incoming = node.inputs[kIncoming];
    const std::vector<bool> depends = dependent_on_gradient(b.graph(), incoming);
    std::vector<ValueId> now(depends.size()); // by value as described
    std::iota(now.begin(), now.end(), ValueId{0});
    now[incoming] = backward.dy();
    const NodeId end = b.graph().value(node.outputs[0]).node;
    for (NodeId id = b.graph().value(incoming).node + 1; id < end && b.ok(); ++id) {
        Node copy = b.graph().nodes[id];
        if (!depends[copy.outputs[0]]) continue;
        const std::vector<ValueId> described = copy.outputs;
        for (ValueId& input : copy.inputs) input = now[input];
        std::vector<ValueId> outputs;
        copy_node(b, copy, outputs);
        for (std::size_t i = 0; i < outputs.size(); ++i) now[described[i]] = outputs[i];
    }
    for (std::size_t i = kFirstPair; i < node.inputs.size() && b.ok(); i += 2)
        backward.give(i, now[node.inputs[i + 1]]);
}

Status run_zeros(const Call&) { return {}; }

} // namespace

const OperationRules incoming_gradient_rules{like_first_input, nullptr, run_zeros};
const OperationRules with_gradient_rules{with_gradient_outputs, with_gradient_gradient, run_same};

} // namespace hekla::graph
