// Activation recomputation (Chen et al. 2016, "Training deep nets with sublinear memory cost"): what a recompute region
// made on the way to the loss is dropped, and made again when its gradient needs it.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// Of a differentiated graph: a node that exists for gradients alone and reads a value made inside a recompute region
// gets a copy of the nodes that made it, placed right before its first use, back to what is kept: leaves, values from
// outside of the region, and values of the region that others than itself read on the way to the loss or an output (its
// results). Copies have the same attributes, dropout's and attention's streams too, so they have the same bits; they
// stand in the region. A graph without regions comes back as it is. Runs after simplify() or before it, and once: a
// second time changes nothing.
Result<Graph> recompute(const Graph& graph);

} // namespace hekla::graph
