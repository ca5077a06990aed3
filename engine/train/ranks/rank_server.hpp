// Another rank than 0 of a training: does what rank 0 asks for, until it ends the training.
#pragma once

#include "exchange/communicator.hpp"

namespace hekla::train {

class CompiledTraining;
class TrainingRun;

Status serve_rank_0(exchange::Communicator& ranks, TrainingRun& run, CompiledTraining& compiled);

} // namespace hekla::train
