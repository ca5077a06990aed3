// The invariants of a graph.
#pragma once

#include "base/status.hpp"

namespace hekla::graph {

struct Graph;

// Checks every invariant: order, counts, kinds, shapes, names. For tests and after parsing text.
Status check(const Graph& graph);

} // namespace hekla::graph
