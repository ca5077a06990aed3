// Turns graphs described in encode or decode mode into the graphs that generation runs, so that plugins need no code
// for decoding.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// Rewrites a graph described in decode mode: attention with a cache name becomes attention_cached of that capacity with
// input fields "decode.start" [B], "decode.count" [B], "decode.cache_row" [B, capacity]; positions become start + 0, 1,
// ...; once(NAME, x) becomes the input field "once.NAME"; state_read(NAME) the field "state.NAME"; state_write(NAME, x)
// an output "state.NAME". Unused nodes are removed. Errors name the node: an attention whose options cannot be cached,
// causal attention without a cache, a state that is only read or only written.
Result<Graph> decode_graph(const Graph& described, int64_t capacity);

// Rewrites a graph described in encode mode: outputs "once.NAME" and, for state_read, "state.NAME" (its initial value).
// Everything else is removed.
Result<Graph> encode_graph(const Graph& described);

// Returns the part of a graph described in encode mode that encode_graph() needs: once(), state_read() and everything
// that they depend on. Without outputs.
Result<Graph> encoding_part(const Graph& described);

} // namespace hekla::graph
