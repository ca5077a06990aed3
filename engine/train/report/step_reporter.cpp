#include "train/report/step_reporter.hpp"

#include "train/report/report.hpp"

#include <limits>

namespace hekla::train {
namespace {

using NamedValues = std::vector<std::pair<std::string, double>>;

std::vector<hk_tap> taps_of(const std::vector<TapStatistics>& all) {
    std::vector<hk_tap> taps;
    for (const TapStatistics& s : all) {
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

std::vector<hk_score> scores_of(const NamedValues& values) {
    std::vector<hk_score> scores;
    for (const auto& [name, value] : values) scores.push_back({{name.data(), name.size()}, value});
    return scores;
}

} // namespace

Result<StepReporter> StepReporter::open(TrainingRun& run) {
    HK_ASSIGN(RunLog log, RunLog::open(run.folder() / "train_log.jsonl", run.step()));
    return StepReporter(run, std::move(log));
}

Status StepReporter::step(const StepResult& result) {
    const TrainSection& s = run_->recipe().train;
    RunProgress& progress = run_->progress();
    const auto& [loss, outcome, tokens, exchange, labels] = result.taken;
    average_seconds_ = average_seconds_ == 0.0 ? result.seconds : 0.9 * average_seconds_ + 0.1 * result.seconds;
    // A share above 1 means that the peak was measured while something else used the device: it is not known.
    const double share = peak_flops_ > 0.0 ? run_->flops(result.micro) / result.seconds / peak_flops_ : 0.0;
    if (share > 1.0) peak_flops_ = 0.0;
    HK_TRY(write());
    Unwritten& step = unwritten_.emplace();
    step.loss_values = loss.losses;
    step.metric_values = loss.metrics;
    const auto& set = run_->scalars().values();
    step.scalar_values.assign(set.begin(), set.end());
    step.losses = scores_of(step.loss_values);
    step.metrics = scores_of(step.metric_values);
    step.scalars = scores_of(step.scalar_values);
    step.tap_values = run_->taps().statistics();
    step.taps = taps_of(step.tap_values);

    hk_train_step& report = step.report;
    report.struct_size = sizeof report;
    report.skipped = !labels ? kNoLabel : outcome.skipped ? 1 : 0;
    report.step = progress.step;
    report.max_steps = s.max_steps;
    // Without a label the loss is undefined, and the 0 that the network computes would be taken for one.
    report.loss = labels ? loss.total : std::numeric_limits<double>::quiet_NaN();
    report.loss_z = progress.losses.z(report.loss);
    report.gradient_norm = outcome.gradient_norm;
    report.learning_rate = result.learning_rate;
    report.seconds = result.seconds;
    report.tokens_per_second = tokens / result.seconds;
    report.share_of_peak = share > 1.0 ? 0.0 : share;
    report.remaining_seconds = average_seconds_ * static_cast<double>(s.max_steps - progress.step);
    report.losses = step.losses.data();
    report.loss_count = step.losses.size();
    report.metrics = step.metrics.data();
    report.metric_count = step.metrics.size();
    report.scalars = step.scalars.data();
    report.scalar_count = step.scalars.size();
    report.exchanged_bytes = exchange.sent + exchange.received;
    report.exchange_seconds = exchange.seconds;
    report.taps = step.taps.data();
    report.tap_count = step.taps.size();
    report.epoch = run_->epochs();
    report.device_bytes = run_->runtime().gpu().memory->current_bytes();

    progress.losses.add(report.loss);
    if (run_->events().step) run_->events().step(report);
    return {};
}

Status StepReporter::write() {
    if (!unwritten_) return {};
    const Unwritten step = std::move(*unwritten_);
    unwritten_.reset();
    return log_.step(step.report);
}

Status StepReporter::evaluation(const Evaluation& evaluation, bool best, double seconds) {
    const std::vector<hk_score> scores = scores_of(evaluation.scores);
    hk_train_evaluation report{};
    report.struct_size = sizeof report;
    report.best = best ? 1 : 0;
    report.step = run_->step();
    report.loss = evaluation.loss;
    report.seconds = seconds;
    report.scores = scores.data();
    report.score_count = scores.size();
    HK_TRY(write());
    HK_TRY(log_.evaluation(report));
    HK_TRY(write_curves());
    if (run_->events().evaluation) run_->events().evaluation(report);
    return {};
}

Status StepReporter::write_curves() {
    HK_TRY(write());
    return log_.write_curves(run_->folder(), run_->folder().filename().string());
}

} // namespace hekla::train
