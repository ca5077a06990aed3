// Generation of whole batches: prompts are fed into the caches by chunks, then token by token until every row has
// ended.
#pragma once

#include "base/stop_poll.hpp"
#include "generate/decoder.hpp"
#include "generate/options.hpp"

#include <functional>
#include <optional>

namespace hekla::generate {

// What changes between two tokens.
struct FieldChange {
    Fields fields;                     // new values of Request::fields
    std::vector<std::size_t> computed; // prompts that are computed again with them, up to the token that is fed next
};

struct Request {
    // Token ids; rows may differ in length, none may be empty. For an encoder-decoder these are the encoder's rows: the
    // decoder's rows begin with Options::decoder_start.
    std::vector<std::vector<int32_t>> prompts;
    // Encoder-decoders: more fields of the encoder, [prompts, ...]. Without "attention_mask" one is created if prompts
    // differ in length. Other models: fields with one number for each prompt, which every step reads.
    Fields fields;
    // Length of the rows to prepare, in tokens, if it is more than the prompts need, so that a later request with as
    // many rows finds everything ready. 0: the current need.
    int64_t length = 0;
    // Prompts are fed in steps of the sizes that a prompt of this many tokens needs, if it is longer than those given.
    // With equal sizes, and a decoder with DecoderOptions::equal_rows, a row's tokens do not depend on the other rows.
    int64_t prompt_length = 0;
    // The model was trained with bidirectional attention over prompts (a prefix language model): each is fed in one
    // step, and the generated tokens attend to all of it. With Options::slide_context the text that a row restarts from
    // is such a prompt too.
    bool both_sides = false;
    std::function<Status()> begun = {}; // called before the first token is fed
    // Called for every token that is drawn or chosen, without beams, with the scores that it was chosen by: after
    // temperature, -infinity for those that were excluded. The host chooses then. May be empty.
    std::function<void(std::size_t row, std::span<const float> scores, int32_t token)> chosen_by = {};
    // The same, before `chosen_by`, with the scores that the model gave.
    std::function<void(std::size_t row, std::span<const float> logits, int32_t token)> chosen_from = {};
    // Called after OnToken, without beams: whether the row ends with the token. May be empty.
    std::function<bool(std::size_t row)> ended = {};
    // Called before every step after the prompts, without beams: whether fields change. May be empty.
    std::function<Result<std::optional<FieldChange>>()> changed = {};
};

// Called for every token when it is chosen, with its row of Output::rows; with beams, when all are done. Returning
// false ends generation: rows stay as they are then.
using OnToken = std::function<bool(std::size_t row, int32_t token)>;

struct Statistics {
    int64_t prompt_tokens = 0; // fed before the first choice, of all rows
    double prompt_seconds = 0.0;
    int64_t tokens = 0; // chosen, of all rows
    double seconds = 0.0;
    double tokens_per_second() const { return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0; }
};

struct Output {
    struct Row {
        std::vector<int32_t> ids; // with the prompt (an encoder-decoder's: its first token); without padding
        std::size_t made = 0;     // number of generated ids, at the end
        double score = 0.0;       // of beams
    };
    std::vector<Row> rows; // Options::sequences of each prompt, prompt after prompt
    int64_t context = 0;   // with Options::slide_context: the model's, where the rows could outgrow it
    bool stopped = false;  // by OnToken or StopPoll, before every row had ended
    Statistics statistics;
};

// `stop` is called before every step of the model, or, where the device chooses tokens, before some of at most 15 ms;
// also with beams. True ends generation: rows stay as they are then, and beams return the best so far. Errors: options
// (see check()), empty prompts, ids outside the vocabulary, a length that the model cannot take.
Result<Output> generate(Decoder& decoder, const Request& request, const Options& options, const OnToken& on_token = {},
                        const StopPoll& stop = {});

} // namespace hekla::generate
