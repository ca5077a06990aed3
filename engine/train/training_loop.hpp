// The loop of a training: when it steps, evaluates, saves and ends.
//
// A checkpoint is written when it is due and gets its name one step later, when the loss and the gradient norm of its
// weights are known to be finite; only then are older ones removed. If there is no next step, the last batch is
// computed once more instead. So every checkpoint of a run can be resumed, whatever happens after it.
#pragma once

#include "data/batcher.hpp"
#include "model/checkpoint.hpp"
#include "train/report/step_reporter.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace hekla::train {

struct Evaluation;
struct StepLoss;
struct StepOutcome;
class TrainingRun;

struct TrainerResult {
    int64_t steps = 0;
    double best_evaluation = 0.0; // NaN: never evaluated
    int64_t best_step = 0;
    bool stopped = false; // by events.stop
    std::filesystem::path run;
};

class TrainingLoop {
public:
    // `run` was opened with Purpose::train and must outlive this.
    explicit TrainingLoop(TrainingRun& run) : run_(run) {}

    // Trains until the recipe's steps are done, early stopping, or events.stop. Call once.
    Result<TrainerResult> run();

private:
    using StepBatches = std::shared_ptr<const std::vector<data::Batch>>; // micro-batches of a step
    Result<TrainerResult> train();
    // Waits for the step that was begun; then its report, evaluation and checkpoint.
    Status end_step(const StepBatches& micro, double rate, std::chrono::steady_clock::time_point begin);
    // Logs a skipped update and writes its batch to a file; an error after train.max_bad_steps in a row.
    Status handle_skipped(const std::vector<data::Batch>& micro, const StepLoss& loss, const StepOutcome& outcome);
    Status evaluate();
    Status write_texts(const Evaluation& evaluation) const; // of the newest evaluation, next to the log
    bool ends_early() const;

    // Writes the state as a checkpoint without a name. If a tensor is not finite, logs a warning instead of failing.
    Status write_checkpoint();
    // Names the written checkpoint, marks it as the best if it is, and removes older ones.
    Status publish_checkpoint();
    // publish_checkpoint(), if the written weights give a finite loss. Otherwise drops the checkpoint and returns the
    // reason.
    Result<std::string> publish_if_finite();
    // Returns "the last good checkpoint is PATH", or that there is none.
    std::string last_checkpoint() const;

    void message(const std::string& text) const;

    TrainingRun& run_;
    std::optional<StepReporter> reporter_;
    struct Unpublished {
        model::CheckpointWriter writer;
        bool best = false;
    };
    std::optional<Unpublished> unpublished_;
    int64_t saved_ = -1;              // step of the newest published checkpoint; -1: none
    int64_t written_ = -1;            // step of the newest written one
    int64_t without_label_ = 0;       // steps since this started
    bool applied_ = false;            // whether an update was applied since this started
    bool evaluation_stopped_ = false; // by events.stop, while it waited for a plugin
    StepBatches tested_;              // of the last applied step, or of the last step without one; the first is used
};

} // namespace hekla::train
