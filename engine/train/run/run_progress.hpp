// Progress of a run: the numbers that a checkpoint stores in addition to tensors.
#pragma once

#include "train/step/loss_window.hpp"

#include <cstdint>
#include <limits>

namespace hekla::train {

struct RunProgress {
    int64_t step = 0;                                                  // updates applied or skipped
    double best_evaluation = std::numeric_limits<double>::quiet_NaN(); // NaN: not evaluated yet
    int64_t best_step = -1;                                            // -1: not evaluated yet
    int64_t evaluations_since_best = 0;
    double seconds = 0.0; // spent in steps
    LossWindow losses;
};

} // namespace hekla::train
