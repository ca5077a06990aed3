#include "score/classification.hpp"

#include "base/trimmed.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::score {
namespace {

double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

} // namespace

ConfusionMatrix::ConfusionMatrix(std::vector<std::string> classes)
    : classes_(std::move(classes)), counts_(classes_.size() * classes_.size(), 0) {}

Status ConfusionMatrix::add(int64_t truth, int64_t predicted, uint64_t count) {
    const auto classes = static_cast<int64_t>(classes_.size());
    for (const auto& [what, value] : {std::pair("true", truth), std::pair("predicted", predicted)})
        if (value < 0 || value >= classes)
            return invalid_argument(
                fmt::format("the {} class is {}; there are {} classes, from 0", what, value, classes));
    counts_[static_cast<std::size_t>(truth * classes + predicted)] += count;
    total_ += count;
    return {};
}

Status ConfusionMatrix::add(std::span<const int64_t> truth, std::span<const int64_t> predicted) {
    if (truth.size() != predicted.size())
        return invalid_argument(
            fmt::format("{} true classes and {} predicted ones cannot be compared", truth.size(), predicted.size()));
    for (std::size_t i = 0; i < truth.size(); ++i) HK_TRY(add(truth[i], predicted[i]));
    return {};
}

ConfusionMatrix::ClassScore ConfusionMatrix::of_class(std::size_t c) const {
    uint64_t truly = 0, predicted = 0;
    for (std::size_t other = 0; other < classes_.size(); ++other) {
        truly += count(c, other);
        predicted += count(other, c);
    }
    const auto hits = static_cast<double>(count(c, c));
    return {ratio(hits, static_cast<double>(predicted)), ratio(hits, static_cast<double>(truly)),
            ratio(2.0 * hits, static_cast<double>(truly + predicted)), truly};
}

ConfusionMatrix::ClassScore ConfusionMatrix::macro() const {
    ClassScore mean;
    double occurring = 0.0;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
        bool occurs = false;
        for (std::size_t other = 0; other < classes_.size(); ++other)
            occurs = occurs || count(c, other) > 0 || count(other, c) > 0;
        if (!occurs) continue;
        const ClassScore one = of_class(c);
        occurring += 1.0;
        mean.precision += one.precision;
        mean.recall += one.recall;
        mean.f1 += one.f1;
    }
    return {ratio(mean.precision, occurring), ratio(mean.recall, occurring), ratio(mean.f1, occurring), total_};
}

ConfusionMatrix::ClassScore ConfusionMatrix::micro() const { return {accuracy(), accuracy(), accuracy(), total_}; }

double ConfusionMatrix::accuracy() const {
    uint64_t hits = 0;
    for (std::size_t c = 0; c < classes_.size(); ++c) hits += count(c, c);
    return ratio(static_cast<double>(hits), static_cast<double>(total_));
}

double ConfusionMatrix::matthews() const {
    const auto all = static_cast<double>(total_);
    double hits = 0.0, both = 0.0, predicted_squares = 0.0, true_squares = 0.0;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
        double truly = 0.0, predicted = 0.0;
        for (std::size_t other = 0; other < classes_.size(); ++other) {
            truly += static_cast<double>(count(c, other));
            predicted += static_cast<double>(count(other, c));
        }
        hits += static_cast<double>(count(c, c));
        both += truly * predicted;
        true_squares += truly * truly;
        predicted_squares += predicted * predicted;
    }
    const double spread = (all * all - predicted_squares) * (all * all - true_squares);
    return spread > 0.0 ? (hits * all - both) / std::sqrt(spread) : 0.0;
}

std::string ConfusionMatrix::table() const {
    std::size_t width = 9; // of names and numbers
    for (const std::string& name : classes_) width = std::max(width, name.size());
    std::string out = fmt::format("{:>{}}  precision  recall      F1  support |", "true \\ predicted", width);
    for (const std::string& name : classes_) out += fmt::format(" {:>{}}", name, width);
    const std::size_t first = std::max(width, std::string_view("true \\ predicted").size());
    for (std::size_t c = 0; c < classes_.size(); ++c) {
        const ClassScore one = of_class(c);
        out += fmt::format("\n{:>{}}  {:9.4f}  {:6.4f}  {:6.4f}  {:7} |", classes_[c], first, one.precision, one.recall,
                           one.f1, one.support);
        for (std::size_t other = 0; other < classes_.size(); ++other)
            out += fmt::format(" {:>{}}", count(c, other), width);
    }
    return out + '\n';
}

Result<double> exact_match(std::span<const std::string> predicted, std::span<const std::string> references) {
    if (predicted.size() != references.size() || predicted.empty())
        return invalid_argument(
            fmt::format("{} predictions and {} references cannot be compared", predicted.size(), references.size()));
    std::size_t hits = 0;
    for (std::size_t i = 0; i < predicted.size(); ++i) hits += trimmed(predicted[i]) == trimmed(references[i]) ? 1 : 0;
    return static_cast<double>(hits) / static_cast<double>(predicted.size());
}

} // namespace hekla::score
