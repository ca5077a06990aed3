// The metrics of tasks: from what a model answered to scores, with standard errors.
#pragma once

#include "harness/answer.hpp"
#include "harness/calibration.hpp"
#include "harness/task.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::harness {

struct MetricInfo {
    std::string_view name;
    std::vector<OutputType> output_types;
    std::string_view aggregation; // over the documents: "mean", or a function of all of them
    bool higher_is_better = true;
};
std::span<const MetricInfo> metric_table();
const MetricInfo* find_metric(std::string_view name); // null if there is none
// Returns the metrics of a task that lists none, as in lm-evaluation-harness.
std::vector<std::string> default_metrics(OutputType type);

struct Score {
    std::string metric, filter;
    double value = 0.0;
    // The standard error. Of a mean over documents: the sample deviation over the root of their number; of a metric of
    // all documents together: the deviation over 100 resamples of them. None: one document.
    std::optional<double> error;
    bool higher_is_better = true;
};

// Scores the answers of a task, and sets Answer::filtered and Answer::metrics. Errors: no answers; F1 and Matthews'
// correlation of tasks with other than two choices, or with different ones.
Result<std::vector<Score>> score_answers(const Task& task, std::span<Answer> answers);

// Returns the calibration of the probabilities of the predicted choices.
Calibration calibration_of(std::span<const Answer> answers);

} // namespace hekla::harness
