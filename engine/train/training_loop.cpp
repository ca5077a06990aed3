#include "train/training_loop.hpp"

#include "base/file.hpp"
#include "base/stopwatch.hpp"
#include "batch/collate.hpp"
#include "data/task_column.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/run/run_data.hpp"
#include "train/run/run_progress.hpp"
#include "train/step/taken_step.hpp"
#include "train/training_run.hpp"
#include "train/update/schedule.hpp"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

} // namespace

void TrainingLoop::message(const std::string& text) const {
    if (run_.events().message) run_.events().message(text);
}

Result<TrainerResult> TrainingLoop::run() {
    Result<TrainerResult> result = train();
    if (const Status logged = reporter_ ? reporter_->write() : Status(); result.ok() && !logged.ok()) result = logged;
    const Code code = result.code();
    if (code != Code::io && code != Code::device_lost && code != Code::out_of_memory) return result;
    // Not an error in the recipe: the same command resumes once the cause is removed.
    const Result<std::vector<int64_t>> saved = model::list_checkpoints(run_.folder());
    const std::string last =
        saved.ok() && !saved.value().empty()
            ? fmt::format("resumes from {}", model::checkpoint_path(run_.folder(), saved.value().back()).string())
            : "starts again, there is no checkpoint yet";
    return Status(code, fmt::format("step {}: {}; the same command {}", run_.step(), result.message(), last));
}

Result<TrainerResult> TrainingLoop::train() {
    const TrainSection& s = run_.recipe().train;
    const RunProgress& progress = run_.progress();
    HK_TRY(run_.start());
    HK_TRY(run_.synchronize());
    HK_ASSIGN(StepReporter reporter, StepReporter::open(run_));
    reporter_.emplace(std::move(reporter));
    if (run_.resumed()) saved_ = progress.step;
    // The process may have been killed after naming a checkpoint and before marking it as the best.
    if (saved_ == progress.step && progress.best_step == progress.step)
        HK_TRY(model::set_best(run_.folder(), progress.step));
    if (progress.step > 0 && progress.step >= s.max_steps)
        message(fmt::format("this run is finished: {} of {} steps are done; raise train.max_steps to train further",
                            progress.step, s.max_steps));

    TrainerResult result;
    result.run = run_.folder();
    std::unique_ptr<data::Batcher> batcher;
    const auto stop_requested = [&] { return run_.events().stop.stopped(); };
    std::vector<data::Batch> next; // of the next step, as far as they are ready
    while (progress.step < s.max_steps && !ends_early() && !result.stopped) {
        const Clock::time_point begin = Clock::now();
        if (batcher == nullptr || run_.rollouts_due()) {
            batcher.reset();
            HK_TRY(reporter_->write());
            const Status rolled_out = run_.roll_out();
            result.stopped = rolled_out.code() == Code::cancelled && stop_requested();
            if (result.stopped) break;
            HK_TRY(rolled_out);
            HK_ASSIGN(batcher, run_.batches(progress.step));
        }
        run_.take_ready_batches(*batcher, next);
        if (std::ssize(next) < s.gradient_accumulation_steps) HK_TRY(reporter_->write()); // the wait may be long
        HK_ASSIGN(std::optional<std::vector<data::Batch>> taken,
                  run_.next_micro_batches(*batcher, std::exchange(next, {})));
        if (!taken) {
            result.stopped = true;
            break;
        }
        const auto micro = std::make_shared<const std::vector<data::Batch>>(std::move(*taken));
        const double rate = learning_rate(s, progress.step);
        HK_TRY(run_.begin_step(*micro, progress.step, rate));
        // While the device computes:
        HK_TRY(reporter_->write());
        run_.take_ready_batches(*batcher, next);
        HK_TRY(end_step(micro, rate, begin));
        if (written_ == progress.step) {
            HK_ASSIGN(const bool changed, run_.balance_ranks());
            if (changed) {
                batcher.reset();
                next.clear();
            }
        }
        result.stopped = evaluation_stopped_ || (stop_requested() && progress.step < s.max_steps && run_.may_stop());
    }
    if (without_label_ > 0) message(fmt::format("{} steps had no label and changed no weight", without_label_));
    if (result.stopped && progress.step > 0 && saved_ != progress.step) HK_TRY(write_checkpoint());
    HK_ASSIGN(const std::string why, publish_if_finite());
    if (!why.empty() && !result.stopped)
        return failed_precondition(
            fmt::format("the weights after step {} cannot be used: {}; {}", progress.step, why, last_checkpoint()));
    if (!why.empty()) message(fmt::format("step {} was not saved: {}; {}", progress.step, why, last_checkpoint()));
    HK_TRY(reporter_->write_curves());
    if (!result.stopped) {
        if (s.load_best_model_at_end) HK_TRY(run_.load_best());
        HK_TRY(run_.swap_average());
        HK_TRY(run_.save_model(run_.folder()));
        HK_TRY(run_.write_samples());
    }
    result.steps = progress.step;
    result.best_evaluation = progress.best_evaluation;
    result.best_step = progress.best_step;
    HK_TRY(run_.end_ranks());
    if (result.stopped && batcher != nullptr) run_.end_batches(*batcher);
    return result;
}

bool TrainingLoop::ends_early() const {
    const int64_t patience = run_.recipe().train.early_stopping_patience;
    return patience > 0 && run_.progress().evaluations_since_best >= patience;
}

Status TrainingLoop::end_step(const StepBatches& micro, double rate, Clock::time_point begin) {
    const TrainSection& s = run_.recipe().train;
    RunProgress& progress = run_.progress();
    HK_ASSIGN(const TakenStep result, run_.end_step());
    const StepLoss& loss = result.loss;
    const StepOutcome& outcome = result.outcome;
    ++progress.step;
    const double seconds = seconds_since(begin);
    progress.seconds += seconds;
    if (!outcome.skipped) {
        HK_TRY(publish_checkpoint()); // its weights gave this step's finite loss and gradients
        applied_ = true;
    }
    if (!outcome.skipped || !applied_) tested_ = micro;
    HK_TRY(reporter_->step({*micro, result, rate, seconds}));
    if (!result.labels && ++without_label_ == 1)
        run_.log().warning(fmt::format("step {}: no token or row of its batch has a label, so it changes no weight; "
                                       "more rows in a step (train.gradient_accumulation_steps), a larger "
                                       "train.context_length or other data would give every step one",
                                       progress.step));
    if (outcome.scale_too_large)
        run_.log().warning(fmt::format("step {}: a gradient is too large for float16; the update was skipped, and the "
                                       "loss scale is halved",
                                       progress.step));
    else if (outcome.skipped)
        HK_TRY(handle_skipped(*micro, loss, outcome));

    const bool last = progress.step == s.max_steps;
    if (run_.data().valid() != nullptr && s.eval_steps > 0 && (progress.step % s.eval_steps == 0 || last))
        HK_TRY(evaluate());
    if (ends_early())
        message(fmt::format("stopping early: no better evaluation in {}; the best was after step {}",
                            progress.evaluations_since_best, progress.best_step));
    const bool best_to_keep = s.load_best_model_at_end && progress.best_step == progress.step;
    if ((s.save_steps > 0 && progress.step % s.save_steps == 0) || last || best_to_keep || ends_early() ||
        progress.step == run_.rewind_step())
        HK_TRY(write_checkpoint());
    return {};
}

Status TrainingLoop::handle_skipped(const std::vector<data::Batch>& micro, const StepLoss& loss,
                                    const StepOutcome& outcome) {
    const int64_t step = run_.step();
    const fs::path file = run_.folder() / fmt::format("bad_step_{}.json", step);
    json batch = json::array();
    for (const data::Batch& one : micro)
        for (const data::Field& field : one.fields)
            batch.push_back({{"field", field.name}, {"shape", field.shape}, {"values", batch::tensor_of(field).data}});
    HK_TRY(write_file_atomically(file, batch.dump() + "\n"));
    HK_ASSIGN(const std::string culprit, run_.describe_non_finite(true));
    const std::string cause = culprit.empty() ? std::string() : fmt::format(" ({})", culprit);
    run_.log().warning(fmt::format("step {}: loss {} or gradient norm {} is not finite{}; the update was skipped, the "
                                   "batch is in {}",
                                   step, loss.total, outcome.gradient_norm, cause, file.string()));
    if (outcome.skipped_in_row < static_cast<uint32_t>(run_.recipe().train.max_bad_steps)) return {};

    HK_TRY(publish_if_finite().status());
    std::string advice = "Try a smaller learning_rate or max_grad_norm";
    if (!applied_ && saved_ > 0)
        advice = fmt::format("No step after {0} was finite: remove that folder to resume from an older checkpoint",
                             model::checkpoint_path(run_.folder(), saved_).string());
    return failed_precondition(fmt::format(
        "{} updates in a row were not finite{}: stopped after step {}. {}; the batch is in {}, and `hekla "
        "replay {} --step {}` names the operation. {}",
        outcome.skipped_in_row, cause, step, last_checkpoint(), file.string(), run_.folder().string(), step, advice));
}

std::string TrainingLoop::last_checkpoint() const {
    return saved_ > 0
               ? fmt::format("The last good checkpoint is {}", model::checkpoint_path(run_.folder(), saved_).string())
               : "There is no checkpoint yet";
}

Status TrainingLoop::write_checkpoint() {
    // Every step since the last checkpoint was skipped, so its weights are the same and are tested now.
    if (unpublished_) HK_TRY(publish_if_finite().status());
    unpublished_.reset();
    HK_TRY(reporter_->write());
    const RunProgress& progress = run_.progress();
    Result<model::CheckpointWriter> writer = run_.write_checkpoint();
    if (writer.code() == Code::corrupt) {
        run_.log().warning(fmt::format("the checkpoint of step {} was not saved: {}. {}", progress.step,
                                       writer.message(), last_checkpoint()));
        return {};
    }
    if (!writer.ok()) return writer.status();
    unpublished_.emplace(Unpublished{writer.take(), progress.best_step == progress.step});
    written_ = progress.step;
    return {};
}

Status TrainingLoop::publish_checkpoint() {
    if (!unpublished_) return {};
    Unpublished checkpoint = std::move(*unpublished_);
    unpublished_.reset();
    HK_ASSIGN(const fs::path folder, checkpoint.writer.commit());
    saved_ = checkpoint.writer.step();
    if (checkpoint.best) HK_TRY(model::set_best(run_.folder(), saved_));
    HK_TRY(model::prune_checkpoints(run_.folder(), run_.recipe().train.save_total_limit, saved_, run_.rewind_step())
               .status());
    message(fmt::format("saved {}", folder.string()));
    return {};
}

Result<std::string> TrainingLoop::publish_if_finite() {
    if (unpublished_ && tested_ != nullptr) {
        const std::vector<data::Batch> one(tested_->begin(), tested_->begin() + 1);
        HK_ASSIGN(const StepLoss loss, run_.gradients(one, run_.step()));
        if (!std::isfinite(loss.total)) {
            unpublished_.reset();
            HK_ASSIGN(const std::string culprit, run_.describe_non_finite(false));
            return culprit.empty() ? fmt::format("their loss is {}", loss.total) : culprit;
        }
    }
    HK_TRY(publish_checkpoint());
    HK_ASSIGN(const std::string culprit, saved_ == run_.step() ? std::string() : run_.describe_non_finite(false));
    return culprit;
}

Status TrainingLoop::evaluate() {
    const TrainSection& s = run_.recipe().train;
    RunProgress& progress = run_.progress();
    const Clock::time_point begin = Clock::now();
    HK_TRY(run_.swap_average());
    const Result<Evaluation> evaluated = run_.validate(false);
    HK_TRY(run_.swap_average());
    if (evaluated.code() == Code::cancelled && run_.events().stop.stopped()) {
        evaluation_stopped_ = true;
        return {};
    }
    if (!evaluated.ok()) return evaluated.status();
    const Evaluation& evaluation = evaluated.value();
    const double value = evaluation.score(s.metric_for_best_model);
    const bool less_is_better = s.metric_for_best_model.starts_with("loss");
    if (s.metric_for_best_model != "loss" && std::isnan(value)) {
        std::vector<std::string> names{"loss"};
        for (const auto& [name, score] : evaluation.scores) names.push_back(name);
        return invalid_argument(
            fmt::format("train.metric_for_best_model = \"{}\": this evaluation has no such score; it has {}",
                        s.metric_for_best_model, fmt::join(names, ", ")));
    }
    const bool better = less_is_better ? !(value >= progress.best_evaluation) : !(value <= progress.best_evaluation);
    const bool best = std::isfinite(value) && better;
    ++progress.evaluations_since_best;
    if (best) {
        progress.best_evaluation = value;
        progress.best_step = progress.step;
        progress.evaluations_since_best = 0;
    }
    if (run_.recipe().generate.examples_while_training > 0) HK_TRY(write_texts(evaluation));
    return reporter_->evaluation(evaluation, best, seconds_since(begin));
}

Status TrainingLoop::write_texts(const Evaluation& evaluation) const {
    message(evaluation.table);
    std::string lines;
    for (const Prediction& prediction : evaluation.predictions) {
        if (!prediction.predicted.contains("text")) continue;
        nlohmann::ordered_json line;
        line["step"] = run_.step();
        line["place"] = run_.data().valid()->place(prediction.example);
        for (const data::TaskColumn& column : run_.data().columns())
            line[column.name] = run_.data().valid()->text(prediction.example, column.name);
        line["said"] = prediction.predicted;
        lines += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    }
    return write_file_atomically(run_.folder() / "texts.jsonl", lines);
}

} // namespace hekla::train
