// Options of generation, with the names and meanings of transformers' generate().
#pragma once

#include "base/status.hpp"

#include "text/tokenizer.hpp"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace hekla::generate {

// The condition for ending beam search before every beam has reached its greatest length.
enum class EarlyStopping : uint8_t {
    heuristic, // false: when the best running beam, scored at its current length, cannot beat the worst finished one
    when_full, // true: as soon as there are as many finished sequences as beams
    never,     // "never": like heuristic, but scored at the greatest length if that is better
};

// A number that is added to the logit of a token.
struct LogitBias {
    int32_t token = 0;
    float value = 0.0f; // finite, or -infinity, which forbids the token
    bool operator==(const LogitBias&) const = default;
};

struct Options {
    int64_t max_new_tokens = 20; // at least 1
    // A row that fills the model's context restarts from its last half and continues. false, or with beams or an
    // encoder-decoder: more tokens than the context holds are an error before anything is generated.
    bool slide_context = false;
    int64_t min_new_tokens = 0; // minimum number before an end token
    std::vector<int32_t> eos;   // any of these ends a row; empty: only the length does
    std::optional<int32_t> pad; // only if rows are padded to the same length for a caller
    // Encoder-decoders: the first token of every row.
    std::optional<int32_t> decoder_start;
    std::optional<int32_t> forced_bos;        // the token after a prompt of one token
    std::vector<int32_t> forced_eos;          // the only tokens allowed at the greatest length
    std::vector<int32_t> suppress;            // forbidden tokens
    std::vector<LogitBias> logit_bias;        // before everything else; each token at most once
    double repetition_penalty = 1.0;          // above 1 makes earlier tokens less likely (Keskar et al. 2019)
    int64_t no_repeat_ngram_size = 0;         // 0: off
    int64_t encoder_no_repeat_ngram_size = 0; // forbids n-grams of the source
    bool sample = false;                      // false: the most likely token (greedy)
    double temperature = 1.0;                 // above 0
    int64_t top_k = 0;                        // 0: all
    double top_p = 1.0;                       // above 0 (Holtzman et al. 2020)
    double min_p = 0.0;                       // 0 (off) to 1, relative to the most likely token (Nguyen et al. 2024)
    uint64_t seed = 0;
    uint64_t first_row = 0; // the number of the first row in draws, which depend on (seed, number, position)
    int64_t beams = 1;
    double length_penalty = 1.0; // a finished beam's score is its log probability / length ^ length_penalty
    EarlyStopping early_stopping = EarlyStopping::heuristic;
    int64_t sequences = 1; // of each prompt; with beams at most as many as beams
};

// Visits the options that are one number: visit(key of a configuration, member, least, most) with limits that the
// number may be equal to, or visit(key, member) where check() has a rule of its own.
template<class V, class O>
void visit_numbers(V&& visit, O& o) {
    constexpr int64_t kCount = std::numeric_limits<int32_t>::max(), kAny = std::numeric_limits<int64_t>::max();
    visit("max_new_tokens", o.max_new_tokens, 1, kCount);
    visit("min_new_tokens", o.min_new_tokens, 0, kCount);
    visit("no_repeat_ngram_size", o.no_repeat_ngram_size, 0, kAny);
    visit("encoder_no_repeat_ngram_size", o.encoder_no_repeat_ngram_size, 0, kAny);
    visit("top_k", o.top_k, 0, kAny);
    visit("num_beams", o.beams, 1, kCount);
    visit("num_return_sequences", o.sequences, 1, kCount);
    visit("repetition_penalty", o.repetition_penalty);
    visit("temperature", o.temperature);
    visit("top_p", o.top_p);
    visit("min_p", o.min_p);
    visit("length_penalty", o.length_penalty);
}

// Checks the options. Error: invalid_argument, with the option, its value and the range.
Status check(const Options& options);

// Returns the options of a folder's configuration (config.json or generation_config.json), overridden by the call's
// arguments; null removes a setting. Unknown arguments are invalid_argument; other keys of a configuration are ignored.
// `prompt_length` converts max_length to new tokens. file: of the configuration, which begins the errors of its
// settings; empty: they do not name it.
Result<Options> options_from(const nlohmann::json& config, const nlohmann::json& arguments, int64_t prompt_length,
                             const std::string& file = {});

// Returns the keys of a folder's generation_config.json that are not options here and would change the result, as
// "KEY = VALUE": those that have their neutral value, and those of other programs' implementation, are not among them.
std::vector<std::string> unsupported_settings(const nlohmann::json& config);

// Sets the end token if the configuration has none: the tokenizer's, or the end of a target in an encoder-decoder.
// Removes ids that the tokenizer does not have (a default of another model).
void end_as(Options& options, const text::Tokenizer& tokenizer, bool encoder_decoder);

} // namespace hekla::generate
