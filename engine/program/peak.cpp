#include "program/peak.hpp"

#include "program/lowering/half.hpp"
#include "program/lowering/records.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::program {

namespace {

constexpr const char* kSums = "peak.sums";
constexpr uint32_t kMostIterations = uint32_t{1} << 20; // of a device that is never busy, because it executes nothing
// The longest dispatch runs several times: other processes may interrupt.
constexpr int kRuns = 8;
constexpr double kSecondsOfRuns = 0.1; // of a slow device

// The dispatch without its iterations.
struct PeakLoop {
    Dispatch dispatch;
    uint32_t invocations = 0; // per workgroup
    double flops = 0;         // of one iteration of all workgroups
};

PeakLoop float32_loop(const Limits& limits) {
    using namespace kernels::peak;
    PeakLoop loop;
    loop.invocations = limits.cpu ? limits.subgroup_size : std::min(256u, limits.max_group_invocations);
    loop.dispatch.shader = "peak/float32";
    loop.dispatch.constants = {loop.invocations};
    // A CPU's threads take workgroups in turn, each of which costs them time.
    loop.dispatch.groups = limits.cores * (limits.cpu ? 1 : std::max(1u, 1024 / loop.invocations));
    loop.flops = 2.0 * kChains * kStepsPerIteration * loop.invocations * static_cast<double>(loop.dispatch.groups);
    return loop;
}

PeakLoop matrix_loop(const Limits& limits, Storage factors) {
    using namespace kernels::peak;
    const MatrixUnit unit = limits.matrix_unit(factors);
    const uint32_t lanes = limits.subgroup_of_many_registers();
    PeakLoop loop;
    loop.invocations = std::max(lanes, std::min(256u, limits.max_group_invocations) / lanes * lanes);
    loop.dispatch.shader = fmt::format("peak/matrix.{}", storage_name(factors));
    loop.dispatch.constants = {loop.invocations, unit.m, unit.n, unit.k};
    loop.dispatch.subgroup_size = lanes;
    loop.dispatch.groups = limits.cores * std::max(1u, 1024 / loop.invocations);
    loop.flops = 2.0 * kMatrixChains * kMatrixSteps * unit.m * unit.n * unit.k *
                 static_cast<double>(loop.dispatch.groups * (loop.invocations / lanes));
    return loop;
}

Lowering lowered(const Limits& limits, const PeakLoop& loop, uint32_t iterations) {
    Lowering lowering;
    lowering.limits = limits;
    const int64_t count = static_cast<int64_t>(loop.dispatch.groups) * loop.invocations;
    const View sums = lowering.named(ResourceKind::state, kSums, {count}, Storage::f32);
    Dispatch dispatch = loop.dispatch;
    dispatch.record =
        make_record(kernels::peak::Record{.sums = sums, .iterations = iterations, .factor = 0.5f, .addend = 0.25f});
    dispatch.flops = loop.flops * iterations;
    dispatch.label = "peak";
    lowering.append(std::move(dispatch));
    return lowering;
}

} // namespace

Result<PeakProbe> PeakProbe::create(TuningBench& bench, const Limits& limits, Storage factors, double seconds) {
    PeakProbe probe(bench);
    if (factors != Storage::f32 && !limits.matrix_unit(factors)) return probe;
    const PeakLoop loop = factors == Storage::f32 ? float32_loop(limits) : matrix_loop(limits, factors);
    uint32_t iterations = 1;
    for (;;) {
        HK_ASSIGN(probe.dispatches_, bench.add(lowered(limits, loop, iterations)));
        HK_ASSIGN(probe.seconds_, bench.run(probe.dispatches_));
        if (probe.seconds_ <= 0) return probe;
        if (probe.seconds_ >= seconds / 2 || iterations == kMostIterations) break;
        const double longer = std::clamp(seconds / probe.seconds_, 2.0, 16.0);
        iterations = std::min(kMostIterations, static_cast<uint32_t>(iterations * longer));
    }
    probe.flops_ = loop.flops * iterations;
    return probe;
}

Result<double> PeakProbe::run() {
    if (flops_ <= 0) return 0.0;
    HK_ASSIGN(seconds_, bench_->run(dispatches_));
    return speed();
}

double PeakProbe::speed() const { return flops_ > 0 && seconds_ > 0 ? flops_ / seconds_ : 0.0; }

Status raise_clock(const std::function<Result<double>()>& speed, const std::function<double()>& now) {
    const double begin = now();
    double share = 0;
    do { HK_ASSIGN(share, speed()); } while (!has_risen(share) && now() - begin < kSecondsToRise);
    return {};
}

Result<double> measure_peak(TuningBench& bench, const Limits& limits, Storage factors, double seconds) {
    HK_ASSIGN(PeakProbe probe, PeakProbe::create(bench, limits, factors, seconds));
    double peak = probe.speed();
    if (peak <= 0) return 0.0;
    double all = probe.seconds();
    for (int run = 1; run < kRuns && all < kSecondsOfRuns; ++run) {
        HK_ASSIGN(const double again, probe.run());
        peak = std::max(peak, again);
        all += probe.seconds();
    }
    return peak;
}

} // namespace hekla::program
