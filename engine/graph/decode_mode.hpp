// What a graph described in encode or decode mode becomes, so that plugins write no decoding path.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// decode: attention with a cache name becomes attention_cached of that capacity with input fields "decode.start" [B],
// "decode.count" [B], "decode.cache_row" [B, capacity]; positions become start + 0, 1, ...; once(NAME, x) becomes the
// input field "once.NAME"; state_read(NAME) the field "state.NAME"; state_write(NAME, x) an output "state.NAME". What
// this leaves unread is removed. An attention whose options cannot be cached is an error naming them.
Result<Graph> decode_graph(const Graph& described, int64_t capacity);

// encode: outputs "once.NAME" and, for state_read, "state.NAME" (its initial value); everything else is removed.
Result<Graph> encode_graph(const Graph& described);

// The part of a graph described in encode mode that encode_graph() reads: what makes once() and state_read()'s first
// values, these too. Without outputs.
Result<Graph> encoding_part(const Graph& described);

} // namespace hekla::graph
