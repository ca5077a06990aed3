// Memory and time of a training: estimated for any device.
#pragma once

#include "program/estimate.hpp"
#include "train/ranks/exchange_plan.hpp"

namespace hekla::train {

struct DescribedTraining;

struct TrainingPlan {
    program::Estimate estimate; // of a step
    int64_t rows = 0, length = 0, steps_left = 0;
    int64_t embeddings = 0;  // of the parameters
    uint64_t examples = 0;   // of an epoch
    double label_tokens = 0; // of a step, on average; 0: the objective predicts none
    uint64_t rollouts = 0;   // bytes of the host's memory for the completions of an iteration
    ExchangePlan exchange;   // with several ranks
};

// choices: kernels that a start of the run has recorded. steps_left: of the training.
Result<TrainingPlan> plan_training(const DescribedTraining& training, const program::Target& target,
                                   std::map<std::string, std::string> choices, int64_t steps_left);

} // namespace hekla::train
