#include "harness/calibration.hpp"

#include <algorithm>
#include <cmath>

namespace hekla::harness {

std::vector<double> softmax(std::span<const double> logarithms) {
    std::vector<double> all(logarithms.begin(), logarithms.end());
    if (all.empty()) return all;
    const double most = *std::ranges::max_element(all);
    double sum = 0.0;
    for (double& x : all) sum += x = std::exp(x - most);
    for (double& x : all) x /= sum;
    return all;
}

double brier(std::span<const double> probabilities, std::size_t truth) {
    double sum = 0.0;
    for (std::size_t c = 0; c < probabilities.size(); ++c) {
        const double difference = probabilities[c] - (c == truth ? 1.0 : 0.0);
        sum += difference * difference;
    }
    return sum;
}

Calibration::Calibration(std::size_t bins) : sums_(bins) {}

void Calibration::add(double confidence, bool correct) {
    const double place = std::ceil(confidence * static_cast<double>(sums_.size())) - 1.0;
    Sums& bin = sums_[static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(sums_.size() - 1)))];
    ++bin.count;
    bin.correct += correct ? 1 : 0;
    bin.confidence += confidence;
}

std::vector<ConfidenceBin> Calibration::bins() const {
    std::vector<ConfidenceBin> all;
    const auto width = 1.0 / static_cast<double>(sums_.size());
    for (std::size_t i = 0; i < sums_.size(); ++i) {
        ConfidenceBin& bin = all.emplace_back();
        bin.low = static_cast<double>(i) * width;
        bin.high = static_cast<double>(i + 1) * width;
        bin.count = sums_[i].count;
        if (bin.count == 0) continue;
        bin.confidence = sums_[i].confidence / static_cast<double>(bin.count);
        bin.accuracy = static_cast<double>(sums_[i].correct) / static_cast<double>(bin.count);
    }
    return all;
}

double Calibration::expected_error() const {
    double sum = 0.0, all = 0.0;
    for (const ConfidenceBin& bin : bins()) {
        sum += static_cast<double>(bin.count) * std::abs(bin.accuracy - bin.confidence);
        all += static_cast<double>(bin.count);
    }
    return all > 0.0 ? sum / all : 0.0;
}

} // namespace hekla::harness
