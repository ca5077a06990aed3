// incoming_gradient: in place of the gradient that with_gradient will get.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// Returns which values depend on an incoming gradient, through anything but the gradients that with_gradient takes.
// incoming: on this one; kNone: on any.
std::vector<bool> dependent_on_gradient(const Graph& graph, ValueId incoming);

// Checks that no loss, metric or output depends on one. Error: invalid_argument, with its name.
Status check_incoming_gradients(const Graph& graph);

} // namespace hekla::graph
