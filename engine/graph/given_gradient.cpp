#include "graph/given_gradient.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>

namespace hekla::graph {
namespace {

// with_gradient's inputs: y, the incoming gradient, then pairs of x and its gradient.
constexpr std::size_t kIncoming = 1, kFirstPair = 2;

// Returns which values depend on an incoming gradient: of one, or (kNone) of any that with_gradient does not take.
std::vector<bool> dependent_on(const Graph& graph, ValueId incoming) {
    std::vector<bool> depends(graph.values.size(), false);
    for (const Node& node : graph.nodes) {
        const bool is_source = node.op == Op::incoming_gradient && (incoming == kNone || node.outputs[0] == incoming);
        const std::size_t read = node.op == Op::with_gradient ? 1 : node.inputs.size();
        const bool reached = is_source || std::ranges::any_of(node.inputs.begin(),
                                                              node.inputs.begin() + static_cast<std::ptrdiff_t>(read),
                                                              [&](ValueId input) { return depends[input]; });
        for (const ValueId output : node.outputs) depends[output] = reached;
    }
    return depends;
}

} // namespace

Result<Outputs> given_gradient_outputs(const Rule& r) {
    if (r.node.op == Op::incoming_gradient) return one(r.kind(0), r.shape(0));
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

bool given_gradient(Backward& backward) {
    const Node node = backward.node();
    if (node.op != Op::with_gradient) return false;
    Builder& b = backward.builder();
    const ValueId incoming = node.inputs[kIncoming];
    const std::vector<bool> depends = dependent_on(b.graph(), incoming);
    std::vector<ValueId> made(depends.size(), kNone);
    made[incoming] = backward.dy();
    for (std::size_t i = kFirstPair; i < node.inputs.size() && b.ok(); i += 2) {
        if (!backward.wants(i)) continue;
        const Graph described = b.graph(); // a copy: the builder's nodes move while they are copied
        const auto known = [&](ValueId value) { return depends[value] ? made[value] : value; };
        const ValueId gradient = node.inputs[i + 1];
        backward.give(i, depends[gradient] ? copy_ancestors(b, described, gradient, known, made) : gradient);
    }
    return true;
}

Status check_incoming_gradients(const Graph& graph) {
    if (std::ranges::none_of(graph.nodes, [](const Node& node) { return node.op == Op::incoming_gradient; })) return {};
    const std::vector<bool> depends = dependent_on(graph, kNone);
    const auto refuse = [](std::string_view what, std::string_view name) {
        return invalid_argument(
            fmt::format("{} '{}' reads an incoming_gradient; expected that only the gradients given to "
                        "with_gradient do",
                        what, name));
    };
    for (const LossTerm& loss : graph.losses)
        if (depends[loss.sum] || depends[loss.count]) return refuse("loss", loss.name);
    for (const Metric& metric : graph.metrics)
        if (depends[metric.sum] || depends[metric.count]) return refuse("metric", metric.name);
    for (const auto& [name, value] : graph.outputs)
        if (depends[value]) return refuse("output", name);
    return {};
}

} // namespace hekla::graph
