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

// Thread: one at a time.
class TaskScores {
public:
    // classes: names, in the order of their numbers; may be empty.
    explicit TaskScores(std::span<const std::string> classes);

    // What was said of one example ("label", "labels", "value") and its columns. A word of which nothing was said, for
    // it fell off the row, counts as wrong. Examples without an answer are left out.
    Status add(const data::EncodedExample& example, const nlohmann::json& said);

    // What was said of where an answer stands ("span": its first and last place in the row), and where it does stand; a
    // truth of -1 fell off the row: nothing that is said is right.
    void add_span(const nlohmann::json& said, int64_t first, int64_t last);

    // exact_match and span_f1 of answers (the tokens of both in common); f1_macro, matthews (and f1 where there are two
    // classes: of the second); pearson, spearman, mse. Those that no example or only equal ones define are left out.
    std::vector<std::pair<std::string, double>> scores() const;
    // The confusion matrix and the scores of each class, for people; empty without classes.
    std::string table() const;

private:
    std::optional<score::ConfusionMatrix> matrix_; // its last class stands for "nothing was said"
    std::size_t classes_ = 0;
    bool nothing_said_ = false;
    std::vector<double> said_, truth_;
    double spans_ = 0.0, exact_spans_ = 0.0, span_f1_ = 0.0;
};

} // namespace hekla::train
