#include "api/training_reports.hpp"

namespace hekla::api {
namespace {

using train::StepRecord;

std::vector<hk_score> scores_of(const train::NamedValues& values) {
    std::vector<hk_score> scores;
    for (const auto& [name, value] : values) scores.push_back({{name.data(), name.size()}, value});
    return scores;
}

std::vector<hk_tap> taps_of(const std::vector<train::TapStatistics>& all) {
    std::vector<hk_tap> taps;
    for (const train::TapStatistics& s : all) {
        hk_tap& tap = taps.emplace_back();
        tap.struct_size = sizeof tap;
        tap.name = {s.name.data(), s.name.size()};
        tap.elements = s.elements;
        tap.nans = s.nans;
        tap.infinities = s.infinities;
        tap.mean = s.mean;
        tap.deviation = s.deviation;
        tap.minimum = s.minimum;
        tap.maximum = s.maximum;
        tap.zeros = s.zeros;
    }
    return taps;
}

int32_t number_of(StepRecord::Skipped skipped) {
    switch (skipped) {
    case StepRecord::Skipped::no: return 0;
    case StepRecord::Skipped::not_finite: return 1;
    case StepRecord::Skipped::no_label: return 2;
    }
    return 0;
}

} // namespace

StepReport::StepReport(const StepRecord& record)
    : losses_(scores_of(record.losses)), metrics_(scores_of(record.metrics)), scalars_(scores_of(record.scalars)),
      taps_(taps_of(record.taps)) {
    step_.struct_size = sizeof step_;
    step_.skipped = number_of(record.skipped);
    step_.step = record.step;
    step_.max_steps = record.max_steps;
    step_.loss = record.loss;
    step_.loss_z = record.loss_z;
    step_.gradient_norm = record.gradient_norm;
    step_.learning_rate = record.learning_rate;
    step_.seconds = record.seconds;
    step_.tokens_per_second = record.tokens_per_second;
    step_.share_of_peak = record.share_of_peak;
    step_.remaining_seconds = record.remaining_seconds;
    step_.losses = losses_.data();
    step_.loss_count = losses_.size();
    step_.metrics = metrics_.data();
    step_.metric_count = metrics_.size();
    step_.scalars = scalars_.data();
    step_.scalar_count = scalars_.size();
    step_.exchanged_bytes = record.exchanged_bytes;
    step_.exchange_seconds = record.exchange_seconds;
    step_.taps = taps_.data();
    step_.tap_count = taps_.size();
    step_.epoch = record.epoch;
    step_.device_bytes = record.device_bytes;
}

EvaluationReport::EvaluationReport(const train::EvaluationRecord& record) : scores_(scores_of(record.scores)) {
    evaluation_.struct_size = sizeof evaluation_;
    evaluation_.best = record.best ? 1 : 0;
    evaluation_.step = record.step;
    evaluation_.loss = record.loss;
    evaluation_.seconds = record.seconds;
    evaluation_.scores = scores_.data();
    evaluation_.score_count = scores_.size();
}

} // namespace hekla::api
