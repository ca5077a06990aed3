// Simplification: removes duplicate and unneeded computations. Results are bit-equal, except that x + 0 may have been
// +0 where x is -0.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// Operations that only matter to a later pass.
struct SimplifyOptions {
    bool keep_sites = false;         // adapters will be inserted
    bool keep_stop_gradient = false; // for_parameters and with_gradient, too: the graph will be differentiated
    bool keep_modes = false;         // once, state_read and state_write: decode_graph and encode_graph will run
};

// Removes common subexpressions (equal operation, inputs and attributes; never inside a recompute region, whose nodes
// are recomputed on purpose), views of views, casts to the same kind, x + 0, x * 1, dropout of probability 0, views of
// fills, broadcasts that a pointwise operation does by itself, sums of adjacent slices, and everything that is not
// needed (see prune()).
Result<Graph> simplify(const Graph& graph, const SimplifyOptions& options = {});

} // namespace hekla::graph
