// Turns steps and evaluations into reports: for the caller, the log (train_log.jsonl) and the curves (loss.svg).
#pragma once

#include "data/batcher.hpp"
#include "train/report/run_log.hpp"
#include "train/report/step_record.hpp"

#include <optional>
#include <vector>

namespace hekla::train {

struct Evaluation;
struct TakenStep;
class TrainingRun;

// One step, as reported by the loop.
struct StepResult {
    const std::vector<data::Batch>& micro;
    const TakenStep& taken;
    double learning_rate = 0.0;
    double seconds = 0.0;
};

class StepReporter {
public:
    // Opens the run's log after its current step. `run` must outlive this.
    static Result<StepReporter> open(TrainingRun& run);

    // Call it after progress().step was increased. Tells the caller now; write() logs it.
    Status step(const StepResult& result);
    // Logs the last step, if it is not logged yet. Called while the device computes the next one.
    Status write();
    Status evaluation(const Evaluation& evaluation, bool best, double seconds);
    Status write_curves();

private:
    StepReporter(TrainingRun& run, RunLog log);
    TrainingRun* run_;
    RunLog log_;
    std::optional<StepRecord> unwritten_; // a step that is not logged yet
    double average_seconds_ = 0.0;        // moving average per step; 0: none yet
    double peak_flops_ = 0.0;             // 0: unknown
};

} // namespace hekla::train
