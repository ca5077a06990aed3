#include "graph/passes/taps.hpp"

#include "base/name_pattern.hpp"
#include "base/nearest_name.hpp"
#include "graph/output.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::graph {

std::vector<std::string> tap_names(const Graph& graph) {
    std::vector<std::string> names;
    for (const Node& node : graph.nodes)
        if (node.op == Op::tap) names.push_back(node.text("name"));
    return names;
}

Result<std::vector<std::string>> selected_taps(const Graph& graph, std::span<const std::string> patterns) {
    const std::vector<std::string> all = tap_names(graph);
    std::vector<bool> wanted(all.size(), false);
    for (const std::string& pattern : patterns) {
        bool found = false;
        for (std::size_t i = 0; i < all.size(); ++i)
            if (matches(pattern, all[i])) wanted[i] = found = true;
        if (found) continue;
        if (all.empty())
            return invalid_argument(fmt::format("no tap '{}': the graph has none; a plugin makes one with "
                                                "tap(value, \"{}\")",
                                                pattern, pattern));
        const std::string_view near = nearest_name(pattern, all);
        return invalid_argument(fmt::format("no tap '{}'{}; the graph has the taps {}", pattern,
                                            near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                            fmt::join(all, ", ")));
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (wanted[i]) names.push_back(all[i]);
    return names;
}

void add_tap_outputs(Graph& graph, std::span<const std::string> names) {
    for (const Node& node : graph.nodes)
        if (node.op == Op::tap && std::ranges::find(names, node.text("name")) != names.end())
            graph.outputs[output_name(OutputKind::tap, node.text("name"))] = node.outputs[0];
}

} // namespace hekla::graph
