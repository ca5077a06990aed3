// Chooses a token by scores: biases, penalties and forbidden tokens, temperature, top-k, top-p, min-p, and the draw, in
// the order of transformers' processors, so that equal logits give equal tokens. Probabilities are integers (share_of),
// so that the kernel generate/choose draws the same tokens on any device.
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

    // Changes scores [vocabulary] in place (logits, or log probabilities of beams): biases, repetition penalty,
    // n-grams, the minimum length, forced and suppressed tokens. Forbidden is -infinity.
    void process(const Row& row, std::span<float> scores) const;

    // Returns the token after `row`: greedy, or drawn from the tokens that temperature, top-k and top-p leave in
    // `scores`, which they change. The draw depends only on (seed, row number, position) and the scores. Errors: scores
    // that are NaN, or no token left.
    Result<int32_t> choose(uint64_t row, uint64_t position, std::span<float> scores) const;

    // Applies temperature, top-k, top-p and min-p (all keep the tokens that are as likely as the last that they keep):
    // a token that must not be drawn gets -infinity.
    void warp(std::span<float> scores) const;

private:
    Options options_;
};

// What a device writes in place of a token: see kNotFinite and kNoTokenAllowed in shaders/generate/record.h. Returns
// the error for it.
Status choice_error(int32_t token, uint64_t row, uint64_t position);

// Returns the probability of a token whose score is `below` the highest, relative to that of the highest, in 2^-31.
uint32_t share_of(float below);

// Returns 64 random bits for a draw.
uint64_t draw_bits(uint64_t seed, uint64_t row, uint64_t position);

// Returns 1 - top_p in 2^-32: the part of all shares that is dropped.
uint32_t dropped_share(double top_p);

// Returns how far below the highest score min_p still keeps a token; kWholeRange or less.
float kept_range(double min_p);

} // namespace hekla::generate
