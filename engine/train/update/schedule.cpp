#include "train/update/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace hekla::train {
namespace {

// Returns a value that falls from 1 at step `begin` to 0 at step `end`.
double remaining(bool cosine, int64_t step, int64_t begin, int64_t end) {
    const double span = static_cast<double>(std::max<int64_t>(end - begin, 1));
    const double done = std::min(1.0, static_cast<double>(step - begin) / span);
    return cosine ? 0.5 * (1.0 + std::cos(std::numbers::pi * done)) : 1.0 - done;
}

int64_t warmup_of(const TrainSection& s) {
    return s.warmup_steps > 0 ? s.warmup_steps
                              : static_cast<int64_t>(std::llround(s.warmup_ratio * static_cast<double>(s.max_steps)));
}

} // namespace

double learning_rate(const TrainSection& s, int64_t step) {
    const int64_t warmup = warmup_of(s);
    if (step < warmup) return s.learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
    if (s.lr_scheduler_type == "constant") return s.learning_rate;
    if (s.lr_scheduler_type == "inverse_sqrt")
        return s.learning_rate * std::sqrt(static_cast<double>(std::max<int64_t>(warmup, 1)) /
                                           static_cast<double>(std::max<int64_t>(step, 1)));
    return s.min_learning_rate + (s.learning_rate - s.min_learning_rate) *
                                     remaining(s.lr_scheduler_type != "linear", step, warmup, s.max_steps);
}

double scheduled_value(const ScheduleSection& s, int64_t step, int64_t max_steps) {
    if (s.kind == "steps") {
        double value = 0.0;
        for (const auto& [from, there] : s.values)
            if (from <= step + 1) value = there;
        return value;
    }
    if (step < s.warmup_steps)
        return s.warmup_value +
               (s.value - s.warmup_value) * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps + 1);
    if (s.kind == "constant") return s.value;
    return s.end_value + (s.value - s.end_value) * remaining(s.kind == "cosine", step, s.warmup_steps,
                                                             s.end_step > 0 ? s.end_step : max_steps);
}

Status check_schedule(const std::string& name, const ScheduleSection& s) {
    const auto refuse = [&](std::string_view what) {
        return invalid_argument(fmt::format("[schedules.{}] kind = \"{}\": {}", name, s.kind, what));
    };
    const auto fits = [](double value) { return std::isfinite(static_cast<float>(value)); };
    if (!fits(s.value) || !fits(s.end_value) || !fits(s.warmup_value) ||
        !std::ranges::all_of(s.values, [&](const auto& pair) { return fits(pair.second); }))
        return refuse("a value is outside the range of float32");
    const bool falls = s.kind == "linear" || s.kind == "cosine";
    if (s.kind == "steps") {
        if (s.values.empty() || s.values.front().first != 1)
            return refuse("needs `values` that begin at step 1: [[1, 1.0], [500, 0.5]]");
        for (std::size_t i = 1; i < s.values.size(); ++i)
            if (s.values[i].first <= s.values[i - 1].first)
                return refuse(fmt::format("the steps of `values` must ascend, but {} follows {}", s.values[i].first,
                                          s.values[i - 1].first));
        if (s.value != 0.0 || s.warmup_steps != 0) return refuse("takes `values` only: remove value and warmup_steps");
    } else if (!s.values.empty()) {
        return refuse("`values` are for kind = \"steps\" only");
    }
    if (!falls && (s.end_value != 0.0 || s.end_step != 0))
        return refuse("end_value and end_step are for linear and cosine only");
    if (s.warmup_steps == 0 && s.warmup_value != 0.0) return refuse("warmup_value needs warmup_steps");
    if (s.end_step > 0 && s.end_step <= s.warmup_steps)
        return refuse(fmt::format("end_step {} must be greater than warmup_steps {}", s.end_step, s.warmup_steps));
    return {};
}

std::string schedule_change(const TrainSection& before, const TrainSection& now, int64_t step) {
    constexpr double kNotable = 0.01; // relative
    if (step == 0 || step >= now.max_steps) return {};
    const double last = learning_rate(before, step - 1), next = learning_rate(now, step);
    const double would = step < before.max_steps ? learning_rate(before, step) : last;
    if (std::abs(next - would) <= kNotable * std::max(std::abs(would), std::abs(next))) return {};
    std::string text =
        fmt::format("the learning rate of step {} is {:.2g}, and was {:.2g} in step {}", step + 1, next, last, step);
    if (before.max_steps != now.max_steps)
        text += fmt::format(", since train.max_steps {} -> {} changes the {} schedule", before.max_steps, now.max_steps,
                            now.lr_scheduler_type);
    if (step < warmup_of(now) && warmup_of(now) != warmup_of(before))
        text += fmt::format("; it warms up until step {} (was {}): train.warmup_steps = {} keeps the old warm-up",
                            warmup_of(now), warmup_of(before), warmup_of(before));
    text += fmt::format("; to continue at the rate that was reached, set train.lr_scheduler_type = \"constant\" and "
                        "train.learning_rate = {:.3g}; for a new cycle with this schedule, start another run whose "
                        "model.from is this one",
                        last);
    return text;
}

} // namespace hekla::train
