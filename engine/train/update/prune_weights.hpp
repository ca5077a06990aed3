// Chooses which weights of a trained model are pruned next: iterative magnitude pruning (Frankle and Carbin 2018, arXiv
// 1803.03635), or the same numbers of weights at random.
#pragma once

#include "model/weights.hpp"
#include "train/recipe/recipe.hpp"
#include "train/update/weight_mask.hpp"

#include <cstdint>
#include <set>
#include <span>
#include <string>

namespace hekla::train {

// Returns a mask that keeps every weight of the parameters that [prune] may prune: trained, of two or more dimensions,
// and not matched by prune.exclude. names: all parameters; body: those of the body. Errors: a pattern that no parameter
// matches; nothing left to prune.
Result<WeightMask> prunable_weights(const Recipe& recipe, std::span<const program::ParameterEntry> table,
                                    const std::set<std::string>& body);

// Prunes prune.amount of the weights that `mask` keeps, over all parameters or in each (prune.scope): those of smallest
// magnitude in `trained`, or with prune.mask = "random" any. The number is exact, rounded to the nearest: of equal
// magnitudes the first are pruned, by parameter name and position. round: from 1, for random numbers. Errors:
// invalid_argument if none of the kept weights, or all, would be pruned; not_found and corrupt if `trained` does not
// have the weights.
Result<WeightMask> pruned_further(const WeightMask& mask, const model::Weights& trained, const Recipe& recipe,
                                  int64_t round);

// Returns a mask that keeps as many weights of each parameter as `mask`, chosen at random.
WeightMask shuffled(const WeightMask& mask, uint64_t seed);

} // namespace hekla::train
