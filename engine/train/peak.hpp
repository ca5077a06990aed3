// How fast this device multiplies matrices, measured: the denominator of "12% of peak".
#pragma once

#include "program/program.hpp"

namespace hekla::train {

// Floating-point operations a second of a float32 matmul of 512 x 512 x 512, the best of a few; 0 if it cannot be
// measured.
double measure_peak_flops(program::Runtime& runtime);

} // namespace hekla::train
