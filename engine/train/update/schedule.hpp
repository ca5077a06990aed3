// Values that change over the steps of a run: the learning rate, and the step scalars of [schedules].
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <string>

namespace hekla::train {

// Returns the learning rate of the update that follows `step` applied ones (step 0 is the first). Linear warm-up, then:
// constant; linear to min_learning_rate; cosine to it (Loshchilov and Hutter 2017); inverse_sqrt of the step (Vaswani
// et al. 2017).
double learning_rate(const TrainSection& settings, int64_t step);

// Returns the value of a step scalar for the update that follows `step` applied ones.
double scheduled_value(const ScheduleSection& schedule, int64_t step, int64_t max_steps);

// Refuses keys that contradict each other.
Status check_schedule(const std::string& name, const ScheduleSection& schedule);

// Returns what a resume with other keys makes of the learning rate at `step` (the steps done), with old and new values
// and what is usually meant instead; empty if the rate continues as it would have.
std::string schedule_change(const TrainSection& before, const TrainSection& now, int64_t step);

} // namespace hekla::train
