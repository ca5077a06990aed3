// The measured peak of a device: the speed of multiply-adds whose operands are in registers, which no kernel exceeds.
#pragma once

#include "program/tuning_bench.hpp"

namespace hekla::program {

// Measures floating-point operations per second. factors: f32 for those of float32, else for those of the matrix units
// for factors in this storage. Every submit takes about `seconds`. Returns 0 if the device has no such units.
Result<double> measure_peak(TuningBench& bench, const Limits& limits, Storage factors, double seconds);

} // namespace hekla::program
