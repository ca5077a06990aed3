// One step of a finished or running training again: `hekla replay`.
#pragma once

#include "train/training_run.hpp"

namespace hekla::train {

struct Replay {
    int64_t from_checkpoint = 0; // the step that the replay began after; 0: the run's beginning
    std::vector<data::Batch> batches;
    StepLoss loss;
    std::vector<std::pair<std::string, ResourceVector<float>>> gradients; // by parameter
};

// Restores the state after `step` - 1 updates from the nearest checkpoint and computes the gradients of step `step`
// again, bit for bit. The run's files do not change; `run` is at that step afterwards.
Result<Replay> replay(TrainingRun& run, int64_t step);

} // namespace hekla::train
