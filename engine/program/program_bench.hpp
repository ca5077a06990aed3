// Benches on a runtime, with programs and parameter stores of their own.
#pragma once

#include "program/runtime.hpp"
#include "program/tuning_bench.hpp"

namespace hekla::program {

// Returns measurements for Tuning::choose() on this runtime.
TuningBenches tuning_benches(Runtime& runtime);

// Works until the clock of a GPU has risen, for 0.3 s at most; does nothing on a CPU. To be called before something is
// measured.
Status raise_clock(Runtime& runtime);

// Returns the measured peak of the device in floating-point operations per second, as measure_peak(). It is measured by
// the first call, in some tenths of a second, and submits are short. 0: not known, or no such matrix units. Fails only
// if the device is lost.
Result<double> peak_flops(Runtime& runtime, Storage factors);

// The peak that programs of a precision are compared with: that of the matrix units, if the device has them for it.
struct Peak {
    double flops = 0; // as peak_flops()
    bool matrix_units = false;
};
Result<Peak> peak_of(Runtime& runtime, Storage precision);

} // namespace hekla::program
