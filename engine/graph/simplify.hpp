// Simplification: what a graph computes twice, or for nothing, goes. Values stay the same to the bit, except that x + 0
// may have been +0 where x is -0.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// Operations that mean something only before a certain pass has run.
struct SimplifyOptions {
    bool keep_sites = false;         // adapters have not been spliced in yet
    bool keep_stop_gradient = false; // the graph is still to be differentiated
    bool keep_modes = false; // once, state_read and state_write: decode_graph and encode_graph are still to come
};

// Common subexpressions (equal operation, inputs and attributes; never inside a recompute region, whose nodes are meant
// to be computed again), views of views, casts to the kind that is there, x + 0, x * 1, dropout of probability 0, views
// of fills, broadcasts that a pointwise operation does by itself, sums of slices that lie side by side, and everything
// that nothing needs (see prune()).
Result<Graph> simplify(const Graph& graph, const SimplifyOptions& options = {});

} // namespace hekla::graph
