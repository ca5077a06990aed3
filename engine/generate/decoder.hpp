// The interface of generation to a model: rows of tokens with caches, fed in chunks, and the scores of each row's next
// token. Implemented by programs on a device (decoder_program.hpp) and by the float64 interpreter
// (decoder_reference.hpp).
#pragma once

#include "base/resource_allocator.hpp"
#include "graph/reference.hpp"

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
    int64_t length = 1; // the greatest number of tokens that a row will hold
    // Encoder-decoders: the encoder's fields ("input_ids", possibly "attention_mask"), [rows / repeats, ...]; each of
    // their rows serves `repeats` adjacent rows (beams of one prompt).
    Fields sources;
    int64_t repeats = 1;
    // Above 0: a model that reads prompts from both sides, in one step of this many tokens (Step::both_sides).
    int64_t prompt_chunk = 0;
};

// Row b takes tokens[b, 0 .. count[b]) at positions start[b], start[b] + 1, ...; what comes after count[b] is read as
// tokens (it must be in the vocabulary) and has no effect. Rows with a count of 0 take no part.
struct Step {
    int64_t chunk = 1;                  // one of chunks(); of both_sides the session's prompt_chunk
    std::span<const int32_t> tokens;    // [rows, chunk]
    std::span<const int32_t> start;     // [rows]
    std::span<const int32_t> count;     // [rows], at most chunk; start + count at most the session's length
    std::span<const int32_t> cache_row; // [rows, capacity()]: in which row's cache each position of a row lies
    std::span<const int32_t> parent;    // [rows]: whose recurrent state the row goes on from; empty: its own
    bool both_sides = false; // the tokens of a row attend to each other in both directions, not only backwards
};

class Decoder {
public:
    virtual ~Decoder() = default;

    virtual bool encoder_decoder() const = 0;
    virtual int64_t vocabulary() const = 0; // scores of a token; after begin()

    // Returns the greatest length of a row, up to the batch's, that the model can take. Error: it cannot take any.
    virtual Result<int64_t> longest(const DecodeBatch& session) const = 0;

    // Starts with empty caches, and runs the encoder if there is one. Errors: the model cannot take rows of that length
    // (the architecture's message), missing fields.
    virtual Status begin(const DecodeBatch& session) = 0;
    // After begin(): prepares everything that decode() may need, and runs it once without a row.
    virtual Status prepare() { return {}; }
    virtual int64_t capacity() const = 0;                   // positions of the caches, a power of two
    virtual const std::vector<int64_t>& chunks() const = 0; // ascending; 1 is always there

    // logits [rows, vocabulary]: of each row's last valid token (of rows with count 0: anything).
    virtual Status decode(const Step& step, Logits& logits) = 0;
    virtual std::pmr::memory_resource* host_memory() const { return std::pmr::new_delete_resource(); } // for logits
};

} // namespace hekla::generate
