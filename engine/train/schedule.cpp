#include "train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hekla::train {

double learning_rate(const TrainSection& s, int64_t step) {
    const int64_t warmup = s.warmup_steps > 0
                               ? s.warmup_steps
                               : static_cast<int64_t>(std::llround(s.warmup_ratio * static_cast<double>(s.max_steps)));
    if (step < warmup) return s.learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
    if (s.lr_scheduler_type == "constant") return s.learning_rate;
    if (s.lr_scheduler_type == "inverse_sqrt")
        return s.learning_rate * std::sqrt(static_cast<double>(std::max<int64_t>(warmup, 1)) /
                                           static_cast<double>(std::max<int64_t>(step, 1)));
    const double span = static_cast<double>(std::max<int64_t>(s.max_steps - warmup, 1));
    const double done = std::min(1.0, static_cast<double>(step - warmup) / span);
    const double left = s.lr_scheduler_type == "linear" ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
    return s.min_learning_rate + (s.learning_rate - s.min_learning_rate) * left;
}

} // namespace hekla::train
