// Scores of predicted numbers, and of a language model's likelihood.
#pragma once

#include "base/status.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::score {

// Errors of both: lists of different lengths, fewer than two numbers, numbers that are not finite, and constant lists,
// for which correlation is not defined.
Result<double> pearson(std::span<const double> x, std::span<const double> y);
// Returns Pearson's correlation of ranks; equal numbers share their mean rank.
Result<double> spearman(std::span<const double> x, std::span<const double> y);
Result<double> mean_squared_error(std::span<const double> x, std::span<const double> y);

// `nats` is the sum of -ln p over the predicted tokens. Error: no tokens were predicted.
Result<double> perplexity(double nats, double tokens);
Result<double> bits_per_byte(double nats, double bytes); // of the original text

} // namespace hekla::score
