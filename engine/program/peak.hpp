// The measured peak of a device: the speed of multiply-adds whose operands are in registers, which no kernel exceeds.
#pragma once

#include "program/tuning_bench.hpp"

namespace hekla::program {

// Arithmetic whose operands are in registers, for about a given time.
class PeakProbe {
public:
    // factors: f32 for arithmetic of float32, else for that of the matrix units for factors in this storage. The bench
    // must outlive the probe.
    static Result<PeakProbe> create(TuningBench& bench, const Limits& limits, Storage factors, double seconds);
    // Runs it, and returns floating-point operations per second. 0: no such units, or a device that executes nothing.
    Result<double> run();
    double speed() const;                       // of the last run
    double seconds() const { return seconds_; } // that it took

private:
    explicit PeakProbe(TuningBench& bench) : bench_(&bench) {}
    TuningBench* bench_;
    std::size_t dispatches_ = 0;
    double flops_ = 0, seconds_ = 0;
};

// The longest time that is spent on raising a GPU's clock, in seconds.
constexpr double kSecondsToRise = 0.3;
// Whether the clock has risen: `share` as TuningBenches::speed.
constexpr bool has_risen(double share) { return share >= 0.95; }
// Measures a GPU's speed until its clock has risen. speed, now: as in TuningBenches.
Status raise_clock(const std::function<Result<double>()>& speed, const std::function<double()>& now);

// Measures floating-point operations per second. factors: f32 for those of float32, else for those of the matrix units
// for factors in this storage. Every submit takes about `seconds`. Returns 0 if the device has no such units.
Result<double> measure_peak(TuningBench& bench, const Limits& limits, Storage factors, double seconds);

} // namespace hekla::program
