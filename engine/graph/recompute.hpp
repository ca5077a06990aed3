// Activation recomputation (Chen et al. 2016, "Training deep nets with sublinear memory cost"): values of a
// recompute region are dropped after the forward pass and computed again for its gradient.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// Takes a differentiated graph. A node that is needed for gradients only and reads a value from inside a recompute
// region gets copies of the nodes that compute it, placed right before their first use. Copying ends at values that are
// kept: leaves, values from outside of the region, and results of the region that the forward pass reads outside.
// Copies have the same attributes, including random streams, and therefore the same bits; they belong to the region. A
// graph without regions is not changed. Runs before or after simplify(); a second run changes nothing.
Result<Graph> recompute(const Graph& graph);

} // namespace hekla::graph
