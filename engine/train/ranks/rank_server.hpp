// Another rank than 0 of a training: does what rank 0 asks for, until it ends the training.
#pragma once

#include "base/status.hpp"

namespace hekla::train {

class TrainingRun;

// Takes part in the training of rank 0. run: created with Purpose::join.
Status serve_rank_0(TrainingRun& run);

} // namespace hekla::train
