#include "train/evaluation/task_scores.hpp"

#include "score/regression.hpp"

#include <algorithm>

namespace hekla::train {
namespace {

using nlohmann::json;

int64_t class_of(const json& predicted, std::size_t classes) {
    if (!predicted.is_number_integer()) return static_cast<int64_t>(classes);
    const auto label = predicted.get<int64_t>();
    return label >= 0 && label < static_cast<int64_t>(classes) ? label : static_cast<int64_t>(classes);
}

} // namespace

TaskScores::TaskScores(std::span<const std::string> classes) : classes_(classes.size()) {
    if (classes.empty()) return;
    std::vector<std::string> names(classes.begin(), classes.end());
    names.emplace_back("not predicted");
    matrix_.emplace(std::move(names));
}

Status TaskScores::add(const data::EncodedExample& example, const json& predicted) {
    for (const data::EncodedColumn& column : example.columns) {
        if (column.kind == HK_COLUMN_CLASSES && matrix_) {
            const json labels = predicted.value("labels", json());
            for (std::size_t i = 0; i < column.ids.size(); ++i) {
                if (column.ids[i] < 0) continue;
                const json one =
                    labels.is_array() ? (i < labels.size() ? labels[i] : json()) : predicted.value("label", json());
                const int64_t label = class_of(one, classes_);
                any_without_label_ = any_without_label_ || label == static_cast<int64_t>(classes_);
                HK_TRY(matrix_->add(column.ids[i], label));
            }
        }
        if (column.kind == HK_COLUMN_NUMBERS && column.numbers.size() == 1 && predicted.contains("value") &&
            predicted["value"].is_number()) {
            truth_.push_back(static_cast<double>(column.numbers[0]));
            predicted_.push_back(predicted["value"].get<double>());
        }
    }
    return {};
}

void TaskScores::add_span(const json& predicted, int64_t first, int64_t last) {
    spans_ += 1.0;
    const json span = predicted.value("span", json());
    if (first < 0 || !span.is_array() || span.size() != 2 || !span[0].is_number_integer() ||
        !span[1].is_number_integer())
        return;
    const auto from = span[0].get<int64_t>(), to = span[1].get<int64_t>();
    exact_spans_ += from == first && to == last ? 1.0 : 0.0;
    const int64_t common = std::min(to, last) - std::max(from, first) + 1;
    if (common > 0)
        span_f1_ += 2.0 * static_cast<double>(common) / static_cast<double>(to - from + 1 + last - first + 1);
}

std::vector<std::pair<std::string, double>> TaskScores::scores() const {
    std::vector<std::pair<std::string, double>> all;
    if (spans_ > 0.0) {
        all.emplace_back("exact_match", exact_spans_ / spans_);
        all.emplace_back("span_f1", span_f1_ / spans_);
    }
    if (matrix_ && matrix_->total() > 0) {
        if (any_without_label_) all.emplace_back("accuracy_of_all", matrix_->accuracy());
        if (classes_ == 2) all.emplace_back("f1", matrix_->of_class(1).f1);
        all.emplace_back("f1_macro", matrix_->macro().f1);
        all.emplace_back("matthews", matrix_->matthews());
    }
    if (predicted_.size() < 2) return all;
    const auto add = [&](const char* name, const Result<double>& value) {
        if (value.ok()) all.emplace_back(name, value.value());
    };
    add("pearson", score::pearson(predicted_, truth_));
    add("spearman", score::spearman(predicted_, truth_));
    add("mse", score::mean_squared_error(predicted_, truth_));
    return all;
}

std::string TaskScores::table() const { return matrix_ && matrix_->total() > 0 ? matrix_->table() : std::string(); }

} // namespace hekla::train
