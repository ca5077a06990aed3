#include "train/report/step_reporter.hpp"

#include "program/runtime.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/run/run_progress.hpp"
#include "train/step/taken_step.hpp"
#include "train/training_run.hpp"

#include <limits>

namespace hekla::train {

StepReporter::StepReporter(TrainingRun& run, RunLog log)
    : run_(&run), log_(std::move(log)), peak_flops_(run.peak_flops()) {}

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
    StepRecord& record = unwritten_.emplace();
    using Skipped = StepRecord::Skipped;
    record.skipped = !labels ? Skipped::no_label : outcome.skipped ? Skipped::not_finite : Skipped::no;
    record.step = progress.step;
    record.max_steps = s.max_steps;
    // Without a label the loss is undefined, and the 0 that the network computes would be taken for one.
    record.loss = labels ? loss.total : std::numeric_limits<double>::quiet_NaN();
    record.loss_z = progress.losses.z(record.loss);
    record.gradient_norm = outcome.gradient_norm;
    record.learning_rate = result.learning_rate;
    record.seconds = result.seconds;
    record.tokens_per_second = tokens.all / result.seconds;
    record.label_tokens = tokens.labels;
    record.share_of_peak = share > 1.0 ? 0.0 : share;
    record.remaining_seconds = average_seconds_ * static_cast<double>(s.max_steps - progress.step);
    record.epoch = run_->epochs();
    record.losses = loss.losses;
    record.metrics = loss.metrics;
    const auto& set = run_->scalars().values();
    record.scalars.assign(set.begin(), set.end());
    record.taps = run_->taps().statistics();
    record.exchanged_bytes = exchange.sent + exchange.received;
    record.exchange_seconds = exchange.seconds;
    record.device_bytes = run_->runtime().gpu().memory->current_bytes();

    progress.losses.add(record.loss);
    if (run_->events().step) run_->events().step(record);
    return {};
}

Status StepReporter::write() {
    if (!unwritten_) return {};
    const StepRecord record = std::move(*unwritten_);
    unwritten_.reset();
    return log_.step(record);
}

Status StepReporter::evaluation(const Evaluation& evaluation, bool best, double seconds) {
    const EvaluationRecord record{best, run_->step(), evaluation.loss, seconds, evaluation.scores};
    HK_TRY(write());
    HK_TRY(log_.evaluation(record));
    HK_TRY(write_curves());
    if (run_->events().evaluation) run_->events().evaluation(record);
    return {};
}

Status StepReporter::write_curves() {
    HK_TRY(write());
    return log_.write_curves(run_->folder(), run_->folder().filename().string());
}

} // namespace hekla::train
