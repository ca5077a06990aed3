// The states of an optimizer program and the loss scale's constants, as the kernels have them:
// shaders/optimizer/record.h.
#pragma once

#include "program/lowering/records.hpp"

namespace hekla::program {

using kernels::optimizer::kFirstLossScale;
using kernels::optimizer::kLossScaleSteps;
using kernels::optimizer::LossScale;
using kernels::optimizer::OptimizerState;

} // namespace hekla::program
