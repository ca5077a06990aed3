// Which token ids a graph can look up.
#pragma once

#include "graph/graph.hpp"

#include <string_view>

namespace hekla::graph {

// Returns N where every embedding that looks up the values of the input `name` has at least N rows, so that ids are 0
// to N - 1. Returns 0 where no embedding looks them up. Follows operations that move values and do not change them.
int64_t id_range(const Graph& graph, std::string_view name);

} // namespace hekla::graph
