#include "graph/gradient/incoming_gradient.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {

std::vector<bool> dependent_on_gradient(const Graph& graph, ValueId incoming) {
    std::vector<bool> depends(graph.values.size(), false);
    for (const Node& node : graph.nodes) {
        const bool is_source = node.op == Op::incoming_gradient && (incoming == kNone || node.outputs[0] == incoming);
        const std::span<const ValueId> all = node.inputs;
        const auto read = node.op == Op::with_gradient ? all.first(1) : all;
        const bool reached = is_source || std::ranges::any_of(read, [&](ValueId input) { return depends[input]; });
        for (const ValueId output : node.outputs) depends[output] = reached;
    }
    return depends;
}

Status check_incoming_gradients(const Graph& graph) {
    const auto is_incoming = [](const Node& node) { return node.op == Op::incoming_gradient; };
    if (std::ranges::none_of(graph.nodes, is_incoming)) return {};
    const std::vector<bool> depends = dependent_on_gradient(graph, kNone);
    const auto refuse = [](std::string_view what, std::string_view name) {
        return invalid_argument(fmt::format(
            "{} '{}' reads an incoming_gradient; expected that only the gradients given to with_gradient do", what,
            name));
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
