// How a training takes its steps, by the division of its recipe.
#pragma once

#include "train/ranks/step_strategy.hpp"

namespace hekla::train {

class Division;

Result<std::unique_ptr<StepStrategy>> strategy_of(const Division& division, const StepContext& context,
                                                  StepRunnerOptions runner);

} // namespace hekla::train
