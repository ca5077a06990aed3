// Learning rates over the steps of a run.
#pragma once

#include "train/recipe.hpp"

namespace hekla::train {

// The learning rate of the update that follows `step` applied ones (step 0 is the first). Linear warm-up, then:
// constant; linear to min_learning_rate; cosine to it (Loshchilov and Hutter 2017); inverse_sqrt of the step (Vaswani
// et al. 2017).
double learning_rate(const TrainSection& settings, int64_t step);

} // namespace hekla::train
