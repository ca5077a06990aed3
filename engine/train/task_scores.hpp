// Scores of what a head said against what the data has: classes, one a word, or numbers.
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

// Thread: one at a time.
class TaskScores {
public:
    // classes: names, in the order of their numbers; may be empty.
    explicit TaskScores(std::span<const std::string> classes);

    // What was said of one example ("label", "labels", "value") and its columns. A word of which nothing was said, for
    // it fell off the row, counts as wrong. Examples without an answer are left out.
    Status add(const data::EncodedExample& example, const nlohmann::json& said);

    // f1_macro, matthews (and f1 where there are two classes: of the second); pearson, spearman, mse. Those that no
    // example or only equal ones define are left out.
    std::vector<std::pair<std::string, double>> scores() const;
    // The confusion matrix and the scores of each class, for people; empty without classes.
    std::string table() const;

private:
    std::optional<score::ConfusionMatrix> matrix_; // its last class stands for "nothing was said"
    std::size_t classes_ = 0;
    bool nothing_said_ = false;
    std::vector<double> said_, truth_;
};

} // namespace hekla::train
