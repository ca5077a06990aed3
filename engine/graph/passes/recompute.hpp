// Activation recomputation (Chen et al. 2016, "Training deep nets with sublinear memory cost"): values of a
// recompute region, or results of cheap operations anywhere, are dropped after the forward pass and computed again for
// the gradients.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// Takes a differentiated graph. A node that is needed for gradients only and reads a value from inside a recompute
// region gets copies of the nodes that compute it, placed right before their first use. Copying ends at values that are
// kept: leaves, values from outside of the region, and results of the region that the forward pass reads outside.
// Copies have the same attributes, including random streams, and therefore the same bits; they belong to the region. A
// graph without regions and convolutions is not changed. Runs before or after simplify(); a second run changes nothing.
//
// Operations selected by `also` are recomputed outside of regions too, where gradients read their inputs in any case,
// so that nothing else has to be stored. The patches of convolutions are always recomputed. Then it runs after
// simplify(), which would join the copies with the originals.
struct Recompute {
    bool norms = false;
    bool activations = false; // and products with them (gates)
};
Result<Graph> recompute(const Graph& graph, Recompute also = {});

} // namespace hekla::graph
