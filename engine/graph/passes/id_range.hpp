// The range of token ids that a graph can look up.
#pragma once

#include "graph/graph.hpp"

#include <string_view>

namespace hekla::graph {

// Returns N if every embedding that looks up the values of the input `name` has at least N rows, so that ids are 0 to N
// - 1. Returns 0 if no embedding looks them up. Follows operations that move values without changing them.
int64_t id_range(const Graph& graph, std::string_view name);

} // namespace hekla::graph
