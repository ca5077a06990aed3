// Scores of a head's predictions against the data: classes, classes of words, spans or numbers.
#pragma once

#include "data/encoded.hpp"
#include "score/classification.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

// Accumulated scores of a task. Thread: one at a time.
class TaskScores {
public:
    // classes: names, in the order of their ids; may be empty.
    explicit TaskScores(std::span<const std::string> classes);

    // Adds a prediction for one example ("label", "labels", "value"). A word without a prediction, because it was
    // truncated, counts as wrong. Examples without an answer are skipped.
    Status add(const data::EncodedExample& example, const nlohmann::json& predicted);

    // Adds a predicted span ("span": first and last position in the row) and the true one. A true position of -1 was
    // truncated, so no prediction is correct.
    void add_span(const nlohmann::json& predicted, int64_t first, int64_t last);

    // Returns exact_match and span_f1 of answers (by common tokens); f1_macro, matthews (and, with two classes, f1 of
    // the second); pearson, spearman, mse. Scores that are undefined, without examples or with only equal ones, are
    // omitted.
    std::vector<std::pair<std::string, double>> scores() const;
    // Returns the confusion matrix and the scores of each class, for people; empty without classes.
    std::string table() const;

private:
    std::optional<score::ConfusionMatrix> matrix_; // the last class means "no prediction"
    std::size_t classes_ = 0;
    bool any_without_label_ = false;
    std::vector<double> predicted_, truth_;
    double spans_ = 0.0, exact_spans_ = 0.0, span_f1_ = 0.0;
};

} // namespace hekla::train
