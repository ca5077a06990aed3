// The weights that attention gives to each key, as outputs of the graph: for pictures, not for training.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

struct AttentionMap {
    std::string output; // its name among the graph's outputs: "attention.0", "attention.1", ...
    std::string place;  // the scope it was described in: "block.3/attention"
    Shape shape;        // [B, H, Tq, Tk]; rows sum to 1
    // Whether its rows and columns are places of what an encoder-decoder writes: made of the field "decoder_input_ids".
    bool queries_written = false, keys_written = false;
};

// Adds an output for every attention node, in the graph's order. The map is the same attention again over the
// identity in place of its values, so that every option of it counts without being said twice. Where there is no such
// node, what the network offers as its weights is the map: a value `offered` [B, Tq, Tk] or [B, H, Tq, Tk], or kNone.
// unsupported: attention over a cache (decode mode).
Result<std::vector<AttentionMap>> add_attention_maps(Graph& graph, ValueId offered = kNone);

} // namespace hekla::graph
