// Scores of predicted classes: a confusion matrix and the scores computed from it, as in scikit-learn.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hekla::score {

// A confusion matrix: counts by (true class, predicted class). Thread: one at a time.
class ConfusionMatrix {
public:
    explicit ConfusionMatrix(std::vector<std::string> classes);

    // Errors: a class outside [0, number of classes).
    Status add(int64_t truth, int64_t predicted, uint64_t count = 1);
    // Errors: lists of different lengths.
    Status add(std::span<const int64_t> truth, std::span<const int64_t> predicted);

    const std::vector<std::string>& classes() const { return classes_; }
    uint64_t count(std::size_t truth, std::size_t predicted) const {
        return counts_[truth * classes_.size() + predicted];
    }
    uint64_t total() const { return total_; }

    // Precision, recall and F1 of one class, each 0 if its denominator is 0; support: examples whose true class it is.
    struct ClassScore {
        double precision = 0.0;
        double recall = 0.0;
        double f1 = 0.0;
        uint64_t support = 0;
    };
    ClassScore of_class(std::size_t c) const;
    // Returns the mean over the classes that occur, in truth or prediction.
    ClassScore macro() const;
    // Returns the scores over all examples: with one class per example, precision, recall and F1 all equal the
    // accuracy.
    ClassScore micro() const;

    double accuracy() const; // 0 without examples
    // Returns Matthews' correlation, for any number of classes (Gorodkin 2004, "Comparing two K-category assignments by
    // a K-category correlation coefficient"); 0 if truth or prediction contains only one class.
    double matthews() const;

    // Returns the matrix and the scores of each class, as a table for people.
    std::string table() const;

private:
    std::vector<std::string> classes_;
    std::vector<uint64_t> counts_;
    uint64_t total_ = 0;
};

// Returns the share of predictions that equal their reference, ignoring white space at the ends. Errors: lists of
// different lengths, empty ones.
Result<double> exact_match(std::span<const std::string> predicted, std::span<const std::string> references);

} // namespace hekla::score
