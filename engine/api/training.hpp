// A Trainer as a host asks for it.
#pragma once

#include "api/call_environment.hpp"
#include "hekla/hekla.h"
#include "train/trainer.hpp"

namespace hekla::api {

// Its events are the host's callbacks. `options` must outlive it.
Result<std::unique_ptr<train::Trainer>> trainer_of(const CallEnvironment& place, const hk_train_options* options,
                                                   train::Purpose purpose);

} // namespace hekla::api
