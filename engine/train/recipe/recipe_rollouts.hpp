// The rules of [reference], [rollout] and [rewards.NAME].
#pragma once

#include "base/status.hpp"
#include "reward/reward_spec.hpp"
#include "train/recipe/recipe.hpp"

#include <vector>

namespace hekla::plugin {
struct RolloutNeeds;
}

namespace hekla::train {

// Checks rules that concern several keys. No file is read.
Status check_rollout_keys(const Recipe& recipe);

// Refuses sections that an objective does not read, because it does not learn from rollouts.
Status check_without_rollouts(const Recipe& recipe);

// Checks what depends on the objective: numbers that must divide each other, the reference, the value head.
Status check_rollouts(const Recipe& recipe, const plugin::RolloutNeeds& needs);

std::vector<reward::RewardSpec> reward_specs(const Recipe& recipe);

// How iterations are divided into steps.
struct IterationShape {
    int64_t completions = 0; // of an iteration
    int64_t rows = 0;        // of a step
    int64_t epochs = 1;
    int64_t steps_of_epoch() const { return completions / rows; }
    int64_t steps() const { return epochs * steps_of_epoch(); } // of an iteration
};
IterationShape iteration_shape(const Recipe& recipe, const plugin::RolloutNeeds& needs);

} // namespace hekla::train
