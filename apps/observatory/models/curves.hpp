// The metrics of a training by step.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace observatory {

struct Curve {
    std::vector<double> steps, values;
    void add(double step, double value) {
        steps.push_back(step);
        values.push_back(value);
    }
};

struct Curves {
    Curve loss, gradient_norm, learning_rate, evaluation;          // evaluation: the loss on validation data
    std::vector<std::pair<std::string, Curve>> scores;             // other evaluation scores: "accuracy", ...
    int64_t step = 0, max_steps = 0;                               // max_steps 0: unknown
    double tokens_per_second = 0, remaining_seconds = 0, best = 0; // best: the lowest evaluation loss
    uint64_t skipped = 0;                                          // steps without an update

    Curve& score(const std::string& name) {
        for (auto& [known, curve] : scores)
            if (known == name) return curve;
        return scores.emplace_back(name, Curve()).second;
    }
};

} // namespace observatory
