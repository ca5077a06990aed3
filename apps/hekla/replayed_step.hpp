// Recomputes one step of a finished or running training: `hekla replay`.
#pragma once

#include "base/resource_array.hpp"
#include "base/status.hpp"
#include "data/batcher.hpp"
#include "train/step/taken_step.hpp"

namespace hekla::train {
class TrainingRun;
}

namespace hekla::app {

struct ReplayedStep {
    int64_t from_checkpoint = 0; // the step after which the replay began; 0: the start of the run
    std::vector<data::Batch> batches;
    train::StepLoss loss;
    std::vector<std::pair<std::string, ResourceArray<float>>> gradients; // by parameter
};

// Restores the state after `step` - 1 updates from the nearest checkpoint and recomputes the gradients of step `step`,
// bit for bit. The run's files do not change; `run` is at that step afterwards.
Result<ReplayedStep> replay_step(train::TrainingRun& run, int64_t step);

} // namespace hekla::app
