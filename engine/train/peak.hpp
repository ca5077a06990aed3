// The measured speed of matrix products on this device, which is 100% in "12% of peak".
#pragma once

#include "program/program.hpp"

namespace hekla::train {

// Measures the floating-point operations per second of a float32 matmul of 512 x 512 x 512, the fastest of five; 0 if
// it cannot run.
double measure_peak_flops(program::Runtime& runtime);

} // namespace hekla::train
