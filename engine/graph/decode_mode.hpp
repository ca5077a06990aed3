// Turns graphs described in encode or decode mode into the graphs that generation runs, so that plugins need no code
// for decoding.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// decode: attention with a cache name becomes attention_cached of that capacity with input fields "decode.start" [B],
// "decode.count" [B], "decode.cache_row" [B, capacity]; positions become start + 0, 1, ...; once(NAME, x) becomes the
// input field "once.NAME"; state_read(NAME) the field "state.NAME"; state_write(NAME, x) an output "state.NAME". What
// this leaves unread is removed. Errors name the node: an attention whose options cannot be cached, causal attention
// without a cache, a state that is read and not written or written and not read.
Result<Graph> decode_graph(const Graph& described, int64_t capacity);

// encode: outputs "once.NAME" and, for state_read, "state.NAME" (its initial value); everything else is removed.
Result<Graph> encode_graph(const Graph& described);

// The part of a graph described in encode mode that encode_graph() reads: what makes once() and state_read()'s first
// values, these too. Without outputs.
Result<Graph> encoding_part(const Graph& described);

} // namespace hekla::graph
