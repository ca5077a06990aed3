// Cross entropy folded into the linear that makes its logits, so that logits [N, V] are never whole in memory, neither
// on the way to the loss nor back (as in "Cut Your Losses", Wijmans et al. 2024, which skips small gradients besides).
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

struct FoldOptions {
    // float32 logits that take less are left whole: back from the loss they would be computed once more.
    int64_t least_bytes = int64_t{256} << 20;
    int64_t chunk = 0; // linear_cross_entropy's attribute
};

// Of a graph as described, before it is differentiated. A cross_entropy becomes a linear_cross_entropy where its logits
// come from a linear, or a matmul by one matrix, through nothing but reshapes, casts and sites, and nothing else reads
// them but an argmax over the classes that comes later. One whose class weights are trained stays. Values are the same
// but for rounding.
Result<Graph> fold_cross_entropy(const Graph& graph, const FoldOptions& options = {});

} // namespace hekla::graph
