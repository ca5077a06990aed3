// Fuses cross entropy with the linear that computes its logits, so that logits [N, V] are never completely in memory,
// neither in the forward nor in the backward pass (as in "Cut Your Losses", Wijmans et al. 2024, which also skips small
// gradients).
#pragma once

#include "graph/graph.hpp"

#include <functional>
#include <set>
#include <string>

namespace hekla::graph {

struct FoldOptions {
    // Logits of fewer bytes (as float32) are not fused, since fusing computes them twice.
    int64_t least_bytes = int64_t{256} << 20;
    // The same if the linear is frozen: then a chunk adds nothing to a gradient of the weight.
    int64_t least_bytes_of_frozen = int64_t{32} << 20;
    int64_t chunk = 0;                              // linear_cross_entropy's attribute
    std::set<std::string, std::less<>> frozen = {}; // parameters that are not trained
};

// For a graph as described, before it is differentiated. A cross_entropy becomes a linear_cross_entropy if its logits
// come from a linear, or a matmul by one matrix, through nothing but reshapes, casts, sites, taps, and either a
// multiplication by a number or a soft cap c * tanh(x / c), before and after which there may be one; and nothing else
// reads them except an argmax over the classes of what the loss reads. A cross_entropy with trained class weights is
// not changed. Values are the same except for rounding.
Result<Graph> fold_cross_entropy(const Graph& graph, const FoldOptions& options = {});

} // namespace hekla::graph
