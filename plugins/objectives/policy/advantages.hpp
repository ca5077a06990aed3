// Advantages from scores, in double precision.
#pragma once

#include "rollout.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace hekla::plugin {

struct MeanAndDeviation {
    double mean = 0.0, deviation = 0.0; // the deviation is that of a sample, with n - 1; 0 for fewer than two numbers
    std::size_t count = 0;
};
// Of the numbers that are not NaN.
inline MeanAndDeviation mean_and_deviation(std::span<const double> numbers) {
    MeanAndDeviation all;
    for (const double x : numbers)
        if (!std::isnan(x)) {
            all.mean += x;
            ++all.count;
        }
    if (all.count == 0) return all;
    all.mean /= static_cast<double>(all.count);
    double squares = 0.0;
    for (const double x : numbers)
        if (!std::isnan(x)) squares += (x - all.mean) * (x - all.mean);
    if (all.count > 1) all.deviation = std::sqrt(squares / static_cast<double>(all.count - 1));
    return all;
}

// Scales numbers to a variance of 1 and, with shift, a mean of 0.
inline void whiten(std::vector<double>& numbers, bool shift) {
    const MeanAndDeviation all = mean_and_deviation(numbers);
    const double scale = 1.0 / std::sqrt(all.deviation * all.deviation + 1e-8);
    for (double& x : numbers) x = (x - all.mean) * scale + (shift ? 0.0 : all.mean);
}

// Generalized advantage estimation (Schulman et al. 2015) over one completion; nothing follows its last token.
inline std::vector<double> generalized_advantages(std::span<const double> rewards, std::span<const float> values,
                                                  double gamma, double lam) {
    std::vector<double> advantages(rewards.size());
    double next_value = 0.0, later = 0.0;
    for (std::size_t t = rewards.size(); t-- > 0;) {
        const auto value = static_cast<double>(values[t]);
        later = rewards[t] + gamma * next_value - value + gamma * lam * later;
        advantages[t] = later;
        next_value = value;
    }
    return advantages;
}

inline std::vector<float> to_floats(const std::vector<double>& numbers) {
    return {numbers.begin(), numbers.end()}; // rounds
}

} // namespace hekla::plugin
