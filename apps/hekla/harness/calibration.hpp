// Calibration of predicted probabilities of classes: whether what is predicted with probability p is true p of the
// time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::harness {

// Returns exp(x) / sum exp(x), without overflow.
std::vector<double> softmax(std::span<const double> logarithms);

// Returns the Brier score of one prediction (Brier 1950): the sum over all classes of (p - 1)^2 for the true one and
// p^2 for the others, 0 to 2.
double brier(std::span<const double> probabilities, std::size_t truth);

// Predictions of similar confidence: the probability of the predicted class.
struct ConfidenceBin {
    double low = 0.0, high = 0.0; // the confidence c is in it if low < c <= high
    uint64_t count = 0;
    double confidence = 0.0; // mean; 0 if empty
    double accuracy = 0.0;   // share of correct predictions; 0 if empty
};

// Collects predictions. Thread: one at a time.
class Calibration {
public:
    explicit Calibration(std::size_t bins = 10); // of equal width
    void add(double confidence, bool correct);   // confidence: 0 to 1
    std::vector<ConfidenceBin> bins() const;
    // Returns the expected calibration error (Guo et al. 2017): the mean over predictions of |accuracy - confidence| of
    // their bin. 0 without predictions.
    double expected_error() const;

private:
    struct Sums {
        uint64_t count = 0, correct = 0;
        double confidence = 0.0;
    };
    std::vector<Sums> sums_;
};

} // namespace hekla::harness
