// The graphs of generation, from a model's description: one step of the decoder for a number of rows, tokens and cache
// positions, and the encoder's pass. Used by both decoders.
#pragma once

#include "generate/decoder.hpp"
#include "plugin/composition/compose.hpp"

#include <map>

namespace hekla::generate {

class DecoderGraphs {
public:
    // Describes the model once to find out whether it has an encoder. `composition` must outlive this; it needs a head
    // that offers the port "logits".
    static Result<DecoderGraphs> create(const plugin::Composition& composition);

    bool encoder_decoder() const { return encoder_decoder_; }
    // Returns whether a state is carried from token to token, in which case every step takes one token per row.
    bool recurrent() const { return recurrent_; }
    // Returns the number of virtual tokens, of an adapter, with which every row of the decoder begins.
    int64_t virtual_tokens() const {
        const plugin::VirtualTokens tokens = composition_->virtual_tokens();
        return encoder_decoder_ && !tokens.hidden ? 0 : tokens.count;
    }
    std::span<const plugin::Invocation> invocations() const { return composition_->invocations(); }
    // Returns the field for generated tokens.
    const char* token_field() const { return encoder_decoder_ ? "decoder_input_ids" : "input_ids"; }

    // Returns the graph of one step. Inputs: token_field() [rows, chunk], "decode.start", "decode.count",
    // "decode.cache_row" (if they are read), "once.*", "state.*", the sources' fields [rows, ...]. Outputs: "logits"
    // [rows, 1, vocabulary] of each row's last valid token (the head computes only that), "state.*".
    Result<graph::Graph> turn(int64_t rows, int64_t chunk, int64_t capacity, const Fields& sources,
                              StepKind kind = StepKind::any) const;
    // Returns the encoder's graph: outputs "once.*" and "state.*" from the sources' fields and, for their number of
    // rows, from `rows`.
    Result<graph::Graph> encode(int64_t rows, const Fields& sources) const;

    // Checks that the model supports rows of `length` tokens; the error is the architecture's.
    Status check_length(int64_t length, const Fields& sources) const;
    // Returns the greatest supported length up to `length`; the architecture's error if there is none.
    Result<int64_t> longest(int64_t length, const Fields& sources) const;
    // Returns the chunk sizes for these caches: 1, 16 and 128 if the model supports them; only 1 with a recurrent
    // state.
    Result<std::vector<int64_t>> chunks(int64_t capacity, const Fields& sources) const;
    // Returns the chunk sizes of steps of StepKind::first, from 16 to 512, ascending. None with a recurrent state.
    std::vector<int64_t> first_chunks(int64_t capacity, const Fields& sources) const;

private:
    explicit DecoderGraphs(const plugin::Composition& composition) : composition_(&composition) {}
    std::vector<plugin::BatchField> fields(int64_t rows, int64_t length, const Fields& sources) const;
    const plugin::Composition* composition_;
    bool encoder_decoder_ = false;
    bool recurrent_ = false;
};

// Returns the smallest power of two that holds `length` positions, at least 16.
int64_t capacity_for(int64_t length);

// Returns `graph` with its output "logits" [B, T, V] replaced by [B, 1, V]: each row's at position max(0, count - 1),
// where count is the field "decode.count" [B]. Linear and pointwise operations before it compute only that position.
Result<graph::Graph> last_token_only(graph::Graph graph);

// Returns the rows of a tensor, each `repeats` times.
graph::Tensor repeat_rows(const graph::Tensor& tensor, int64_t repeats);

// Copies rows of `from` to the same rows of `to`, of the same shape: row r means the `repeats` rows from r * repeats
// on.
void copy_rows(const graph::Tensor& from, graph::Tensor& to, std::span<const std::size_t> rows, int64_t repeats);

} // namespace hekla::generate
