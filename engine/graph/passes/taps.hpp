// Values that a graph names by the operation tap, for people to look at while it runs.
#pragma once

#include "graph/graph.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::graph {

// Returns the names of a graph's taps, in its order.
std::vector<std::string> tap_names(const Graph& graph);

// Returns the names that patterns with '*' select, in the order of the graph. Errors: a pattern that selects none; the
// message lists the taps.
Result<std::vector<std::string>> selected_taps(const Graph& graph, std::span<const std::string> patterns);

// Makes taps outputs of the graph, OutputKind::tap. Names that it does not have are left out.
void add_tap_outputs(Graph& graph, std::span<const std::string> names);

} // namespace hekla::graph
