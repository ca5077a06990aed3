// Chooses a token by scores: penalties and forbidden tokens, temperature, top-k, top-p, and the draw, in the order of
// transformers' processors, so that equal logits give equal tokens.
#pragma once

#include "generate/options.hpp"

#include <span>

namespace hekla::generate {

class Sampler {
public:
    explicit Sampler(const Options& options) : options_(options) {}

    // The state of a row when its next token is chosen.
    struct Row {
        std::span<const int32_t> ids;    // all ids so far, including the prompt
        int64_t prompt_length = 0;       // number of ids that were given
        std::span<const int32_t> source; // of an encoder-decoder
    };

    // Changes scores [vocabulary] in place (logits, or log probabilities of beams): repetition penalty, n-grams, the
    // minimum length, forced and suppressed tokens. Forbidden is -infinity.
    void process(const Row& row, std::span<float> scores) const;

    // Returns the token after `row`: greedy, or drawn from the tokens that temperature, top-k and top-p leave in
    // `scores`, which they change. The draw depends only on (seed, row number, position) and the scores. Errors: scores
    // that are NaN, or no token left.
    Result<int32_t> choose(uint64_t row, uint64_t position, std::span<float> scores) const;

    // Applies temperature, top-k and top-p: a token that must not be drawn gets -infinity.
    void warp(std::span<float> scores) const;

private:
    Options options_;
};

// Returns a number in [0, 1) of 53 bits for a draw.
double draw_unit(uint64_t seed, uint64_t row, uint64_t position);

} // namespace hekla::generate
