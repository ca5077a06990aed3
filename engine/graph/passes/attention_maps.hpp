// Attention maps (the weight of each key) as outputs of a graph: for visualization, not for training.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

struct AttentionMap {
    std::string output; // its name among the graph's outputs: "attention.0", "attention.1", ...
    std::string place;  // scope of the node: "block.3/attention"
    Shape shape;        // [B, H, Tq, Tk]; rows sum to 1
    // Whether its rows and columns are positions of the decoder, i.e. are computed from the field "decoder_input_ids".
    bool queries_written = false, keys_written = false;
};

// Adds an output for every attention node, in the graph's order: the same attention with the identity as its values, so
// that all options apply. In a graph without attention nodes, the map is the network's own value `offered` [B, Tq, Tk]
// or [B, H, Tq, Tk], or kNone.
// unsupported: attention over a cache (decode mode).
Result<std::vector<AttentionMap>> add_attention_maps(Graph& graph, ValueId offered = kNone);

} // namespace hekla::graph
