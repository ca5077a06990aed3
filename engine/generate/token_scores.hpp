// How likely a model finds tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::generate {

struct TokenScore {
    int32_t token = 0;
    double log_probability = 0.0; // natural logarithm
};

// Returns the score of `token`, and after it those of the most likely tokens, `likeliest` of them or all; of equal ones
// the lower id first. The logits are not NaN, and one is finite.
std::vector<TokenScore> score_tokens(std::span<const float> logits, int32_t token, std::size_t likeliest);

} // namespace hekla::generate
