// Creates a training run from a host's options.
#pragma once

#include "api/call_environment.hpp"
#include "hekla/hekla.h"
#include "train/run/run_context.hpp"

namespace hekla::train {
class TrainingRun;
struct TrainerResult;
} // namespace hekla::train

namespace hekla::api {

// Its events are the host's callbacks. Data that `options` points to, and `ranks`, must outlive it.
Result<std::unique_ptr<train::TrainingRun>> training_run_of(const CallEnvironment& place,
                                                            const hk_train_options* options, train::Purpose purpose,
                                                            exchange::Communicator* ranks = nullptr);
// Trains alone, or as one rank of several (hk_train_options.communicator).
Result<train::TrainerResult> train_by(const CallEnvironment& place, const hk_train_options* options);

} // namespace hekla::api
