// Computes the gradient of a fused cross entropy together with its loss, so that logits are computed once.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// For a differentiated graph. A linear_cross_entropy and its linear_cross_entropy_gradient become one
// linear_cross_entropy_with_gradient if the gradient of the loss is known before the loss, which it is when the loss is
// only summed, scaled and masked. Values are the same except for rounding.
Result<Graph> join_cross_entropy(const Graph& graph);

} // namespace hekla::graph
