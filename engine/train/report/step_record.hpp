// What a training reports of each step and of each evaluation.
#pragma once

#include "train/step/taps.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

using NamedValues = std::vector<std::pair<std::string, double>>;

struct StepRecord {
    enum class Skipped : uint8_t { // numbered as hk_train_step.skipped
        no = 0,
        not_finite = 1, // the loss or the gradient
        no_label = 2,   // no example has one, and `loss` is NaN
    };
    Skipped skipped = Skipped::no; // otherwise no parameter was updated
    int64_t step = 0;              // its number, from 1
    int64_t max_steps = 0;
    double loss = 0.0;          // each loss of the objective times its weight, summed; before the update
    double loss_z = 0.0;        // distance from the mean of the last losses, in standard deviations
    double gradient_norm = 0.0; // before clipping
    double learning_rate = 0.0; // without the factors of parameter groups
    double seconds = 0.0;
    double tokens_per_second = 0.0;
    double label_tokens = 0.0;      // that the step predicts; 0: the objective predicts none
    double share_of_peak = 0.0;     // of the device's measured one, 0 to 1; 0: not known
    double remaining_seconds = 0.0; // estimated, without evaluations
    double epoch = 0.0;             // passes over the data so far; 0: not defined
    NamedValues losses, metrics, scalars;
    std::vector<TapStatistics> taps;
    uint64_t exchanged_bytes = 0;  // that this rank sent and received
    double exchange_seconds = 0.0; // in which it waited
    uint64_t device_bytes = 0;
};

struct EvaluationRecord {
    bool best = false; // of the run so far
    int64_t step = 0;  // after which the model was evaluated
    double loss = 0.0, seconds = 0.0;
    NamedValues scores; // of the objective; each loss of several is named "loss.NAME"
};

} // namespace hekla::train
