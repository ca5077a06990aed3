#include "base/stopwatch.hpp"
#include "gpu/capabilities.hpp"
#include "lab/kernel.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::lab {
namespace {

constexpr int kSteps = 64; // of latency.comp
constexpr float kFactor = 0.5f, kAddend = 1.0f;
constexpr double kSecondsOfWork = 1.0;

// One subgroup, so that nothing else shares its core. Stores what each invocation computed in "sums", and with `counts`
// the ticks of its clock in "ticks".
Result<program::Lowering> chain(program::Runtime& runtime, uint32_t iterations, bool counts = false) {
    program::Lowering lowering;
    lowering.limits = runtime.device_limits();
    const uint32_t width = lowering.limits.subgroup_size;
    HK_ASSIGN(program::Dispatch dispatch, dispatch_of(counts ? "latency.clock" : "latency", {width}));
    dispatch.record = begin_record();
    const auto numbers = [&](const char* name) {
        return program::writes(lowering.named(program::ResourceKind::state, name, {width}, program::Storage::f32));
    };
    dispatch.record.put(numbers("sums"));
    dispatch.record.put(iterations);
    dispatch.record.put(kFactor);
    dispatch.record.put(kAddend);
    dispatch.record.put(numbers("ticks"));
    lowering.append(std::move(dispatch));
    return lowering;
}

// About a millisecond; the difference of two lengths is without what a dispatch takes.
constexpr uint32_t kShort = 512, kLong = 4096;

// Returns the ticks of a core's clock in a second; 0 if the device does not count them, or executes nothing.
Result<double> ticks_per_second(program::Runtime& runtime) {
    if (!runtime.gpu().capabilities().subgroup_clock) return 0.0;
    HK_ASSIGN(const auto bench, make_bench(runtime));
    struct Counted {
        double ticks = 0, seconds = 0;
    };
    const auto counted = [&](uint32_t iterations) -> Result<Counted> {
        HK_ASSIGN(const program::Lowering lowering, chain(runtime, iterations, true));
        HK_ASSIGN(const std::size_t dispatches, bench->add(lowering));
        HK_ASSIGN(const double seconds, bench->run(dispatches));
        HK_ASSIGN(const std::vector<std::byte> ticks, bench->download("ticks"));
        return Counted{number_at(ticks, program::Storage::f32, 0), seconds};
    };
    HK_ASSIGN(const Counted few, counted(kShort));
    HK_ASSIGN(const Counted many, counted(kLong));
    const double ticks = many.ticks - few.ticks, seconds = many.seconds - few.seconds;
    return ticks > 0 && seconds > 0 ? ticks / seconds : 0.0;
}

} // namespace

Result<report::Outcome> clock(const Input& input) {
    report::Outcome outcome;
    HK_ASSIGN(const auto bench, make_bench(input.runtime));
    HK_ASSIGN(const program::Lowering once, chain(input.runtime, 1));
    HK_TRY(bench->add(once).status());
    HK_ASSIGN(const std::vector<std::byte> sums, bench->download("sums"));
    double expected = 1;
    for (int step = 0; step < kSteps; ++step)
        expected = expected * static_cast<double>(kFactor) + static_cast<double>(kAddend);
    if (const double got = number_at(sums, program::Storage::f32, 1); !(std::abs(got - expected) <= 1e-6 * expected)) {
        outcome.problem = fmt::format("{} multiply-adds gave {:.8g}; float64 computes {:.8g}", kSteps, got, expected);
        return outcome;
    }
    HK_ASSIGN(const program::Lowering of_short, chain(input.runtime, kShort));
    HK_ASSIGN(const program::Lowering of_long, chain(input.runtime, kLong));
    HK_ASSIGN(const std::size_t brief, bench->add(of_short));
    HK_ASSIGN(const std::size_t whole, bench->add(of_long));
    const auto nanoseconds = [&]() -> Result<double> {
        HK_ASSIGN(const double a, bench->run(brief));
        HK_ASSIGN(const double b, bench->run(whole));
        return std::max(0.0, b - a) * 1e9 / (kSteps * static_cast<double>(kLong - kShort));
    };
    HK_ASSIGN(const double first, nanoseconds());
    const auto begin = std::chrono::steady_clock::now();
    double warm = first;
    while (seconds_since(begin) < kSecondsOfWork) {
        HK_TRY(warm_up(input.runtime));
        HK_ASSIGN(const double now, nanoseconds());
        warm = std::min(warm, now);
    }
    outcome.result = {{"first_ns", rounded(first)}, {"warm_ns", rounded(warm)}, {"seconds_of_work", kSecondsOfWork}};
    outcome.text = fmt::format("{:.3g} ns for a multiply-add that waits for the one before", warm);
    HK_ASSIGN(const double hz, ticks_per_second(input.runtime));
    if (hz > 0) {
        outcome.result["hz"] = rounded(hz);
        outcome.text += fmt::format(", {:.3g} ticks of a core's clock at {:.4g} GHz", warm * hz / 1e9, hz / 1e9);
    }
    return outcome;
}

} // namespace hekla::lab
