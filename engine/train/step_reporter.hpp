// Turns steps and evaluations into reports: for the caller, the log (train_log.jsonl) and the curves (loss.svg).
#pragma once

#include "data/batcher.hpp"
#include "train/report.hpp"
#include "train/training_run.hpp"

#include <optional>
#include <vector>

namespace hekla::train {

// One step, as reported by the loop.
struct StepResult {
    const std::vector<data::Batch>& micro;
    const StepLoss& loss;
    const StepOutcome& outcome;
    double learning_rate = 0.0;
    double seconds = 0.0;
};

class StepReporter {
public:
    // Opens the run's log after its current step. `run` must outlive this.
    static Result<StepReporter> open(TrainingRun& run);

    // Call it after progress().step was increased.
    Status step(const StepResult& result);
    Status evaluation(const Evaluation& evaluation, bool best, double seconds);
    Status write_curves() const;

private:
    StepReporter(TrainingRun& run, RunLog log) : run_(&run), log_(std::move(log)), peak_flops_(run.peak_flops()) {}
    TrainingRun* run_;
    RunLog log_;
    double average_seconds_ = 0.0; // moving average per step; 0: none yet
    double peak_flops_ = 0.0;      // 0: unknown
};

} // namespace hekla::train
