// The interface between generation and a model: rows of tokens with caches, fed in chunks, and the scores of each row's
// next token. Implemented by programs on a device (decoder_program.hpp) and by the float64 interpreter
// (decoder_reference.hpp).
#pragma once

#include "base/resource_allocator.hpp"
#include "generate/options.hpp"
#include "graph/reference.hpp"
#include "plugin/composition/adapter_tokens.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace hekla::generate {

// Fields of the batch on the host, by name; the first dimension counts rows.
using Fields = std::map<std::string, graph::Tensor, std::less<>>;

using Logits = ResourceVector<float>;

struct DecodeBatch {
    int64_t rows = 1;
    int64_t length = 1; // maximum number of tokens per row
    // Encoder-decoders: the encoder's fields ("input_ids", possibly "attention_mask"), [rows / repeats, ...]. Other
    // models: fields [rows / repeats] that every step reads. Each of their rows serves `repeats` adjacent rows (beams
    // of one prompt).
    Fields sources;
    int64_t repeats = 1;
    // Above 0: a model with bidirectional attention over prompts, in one step of this many tokens
    // (StepKind::both_sides).
    int64_t prompt_chunk = 0;
};

enum class StepKind : uint8_t {
    any,        // tokens attend to all before them
    first,      // the same; each row that takes part begins at position 0
    both_sides, // tokens of a row also attend to those after them
};

// Row b takes tokens[b, 0 .. count[b]) at positions start[b], start[b] + 1, ...; values after count[b] are read as
// tokens (they must be in the vocabulary) and have no effect. Rows with a count of 0 are skipped.
struct Step {
    // One of chunks(); of StepKind::first: what first_chunk() returns; of StepKind::both_sides: the session's
    // prompt_chunk.
    int64_t chunk = 1;
    std::span<const int32_t> tokens;    // [rows, chunk]
    std::span<const int32_t> start;     // [rows]
    std::span<const int32_t> count;     // [rows], at most chunk; start + count at most the session's length
    std::span<const int32_t> cache_row; // [rows, capacity()]: the row whose cache holds each position of a row
    std::span<const int32_t> parent;    // [rows]: the row whose recurrent state is continued; empty: its own
    StepKind kind = StepKind::any;
};

// Steps of one token each, after which the decoder itself chooses the tokens of the next: those that Sampler would.
struct OwnSteps {
    Step first; // of chunk 1; rows with a count of 0 take no part in any
    int64_t steps = 1;
    std::span<const int64_t> made;      // [rows]: tokens that were chosen so far
    std::span<const uint64_t> position; // [rows]: number of ids in the row's text
};

class Decoder {
public:
    virtual ~Decoder() = default;

    virtual bool encoder_decoder() const = 0;
    virtual int64_t vocabulary() const = 0; // number of scores per token; valid after begin()

    // Returns the greatest length of a row, up to the batch's, that the model supports. Error: it supports none.
    virtual Result<int64_t> longest(const DecodeBatch& session) const = 0;

    // The fields, [rows] int32, with the place in each row from which an adapter acts: in the sources of begin().
    virtual std::span<const plugin::Invocation> invocations() const { return {}; }

    // Starts with empty caches, and runs the encoder if there is one. Errors: the model does not support rows of that
    // length (the architecture's message), missing fields.
    virtual Status begin(const DecodeBatch& session) = 0;
    // After begin(): prepares everything that decode() may need, and runs it once without rows.
    virtual Status prepare() { return {}; }
    virtual int64_t capacity() const = 0;                   // positions of the caches, a power of two
    virtual const std::vector<int64_t>& chunks() const = 0; // ascending; always contains 1
    // Returns the size of the first step for rows of up to `length` tokens, in which attention need not read the
    // caches; 0: the first step is like any other.
    virtual int64_t first_chunk(int64_t) const { return 0; }

    // After begin(): later steps read these fields instead, with as many rows as in the batch's `sources`. The rows
    // `again` of `sources` begin again: everything before their first step, such as an encoder's pass, is computed with
    // the new fields, and their tokens must be fed again. Other rows keep theirs.
    virtual Status set_fields(const Fields&, std::span<const std::size_t> /*again*/) {
        return unsupported("this decoder's fields cannot change");
    }

    // Returns logits [rows, vocabulary] of each row's last valid token (undefined for rows with count 0).
    virtual Status decode(const Step& step, Logits& logits) = 0;

    // Returns the greatest number of steps in one call of decode_and_choose() with these options; 0: it cannot choose.
    virtual int64_t steps_at_once(const Options&) const { return 0; }
    // Sets chosen [rows, steps]: each row's new tokens. A row ends with an end token, Options::max_new_tokens or one of
    // Sampler's errors, in place of a token; what follows is undefined.
    virtual Status decode_and_choose(const OwnSteps&, const Options&, std::span<int32_t>) {
        return unsupported("this decoder cannot choose tokens");
    }
    virtual std::pmr::memory_resource* host_memory() const { return std::pmr::new_delete_resource(); } // for logits
};

} // namespace hekla::generate
