// Benches on a runtime, with programs and parameter stores of their own.
#pragma once

#include "program/runtime.hpp"
#include "program/tuning_bench.hpp"

namespace hekla::program {

// Returns measurements for Tuning::choose() on this runtime.
TuningBenches tuning_benches(Runtime& runtime);

// Returns the measured peak of the device in floating-point operations per second, as measure_peak(). It is measured by
// the first call, in a tenth of a second, and submits are short. 0: not known, or no such matrix units.
double peak_flops(Runtime& runtime, Storage factors);

} // namespace hekla::program
