#include "gpu/capabilities.hpp"
#include "lab/kernel.hpp"
#include "program/lowering/half.hpp"
#include "program/program_bench.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

namespace hekla::lab {
namespace {

constexpr uint32_t kMostIterations = uint32_t{1} << 20;

// A dispatch whose work is proportional to its iterations.
struct Loop {
    std::function<Result<program::Lowering>(uint32_t iterations)> lower;
    double flops = 0; // of one iteration of all workgroups
    // What an invocation stores after one iteration, in float64; of the first and the last invocation.
    double expected = 0;
    int64_t invocations = 0;
};

struct Measured {
    double flops_per_second = 0;
    std::string problem;
};

Result<Measured> measure(program::Runtime& runtime, const Loop& loop) {
    Measured measured;
    HK_ASSIGN(const auto bench, make_bench(runtime));
    HK_ASSIGN(const program::Lowering once, loop.lower(1));
    HK_ASSIGN(std::size_t dispatches, bench->add(once));
    HK_ASSIGN(const std::vector<std::byte> sums, bench->download("sums"));
    for (const int64_t i : {int64_t{0}, loop.invocations - 1}) {
        const double got = number_at(sums, program::Storage::f32, static_cast<uint64_t>(i));
        if (!(std::abs(got - loop.expected) <= 1e-3 * std::abs(loop.expected))) {
            measured.problem =
                fmt::format("invocation {} computed {:.6g}; float64 computes {:.6g}", i, got, loop.expected);
            return measured;
        }
    }
    uint32_t iterations = 1;
    HK_ASSIGN(double seconds, bench->run(dispatches));
    while (seconds > 0 && seconds < kMeasured / 4 && iterations < kMostIterations) {
        iterations = std::min(kMostIterations,
                              static_cast<uint32_t>(iterations * std::clamp(kMeasured / 2 / seconds, 2.0, 16.0)));
        HK_ASSIGN(const program::Lowering longer, loop.lower(iterations));
        HK_ASSIGN(dispatches, bench->add(longer));
        HK_ASSIGN(seconds, bench->run(dispatches));
    }
    if (seconds > 0) measured.flops_per_second = loop.flops * iterations / seconds;
    return measured;
}

// Workgroups that fill every core.
struct Filling {
    uint32_t lanes = 0, invocations = 0;
    uint64_t groups = 0;
};
Filling filling_of(const program::Limits& limits) {
    Filling filling;
    filling.lanes = limits.subgroup_of_many_registers();
    filling.invocations =
        std::max(filling.lanes, std::min(256u, limits.max_group_invocations) / filling.lanes * filling.lanes);
    filling.groups = uint64_t{limits.cores} * std::max(1u, 1024 / filling.invocations);
    return filling;
}

// The shared part: a dispatch with "sums" and the iterations.
Result<program::Lowering> lower_loop(program::Runtime& runtime, const std::string& name,
                                     const std::vector<uint32_t>& constants, const Filling& filling,
                                     uint32_t iterations, const std::vector<float>& numbers, double flops) {
    program::Lowering lowering;
    lowering.limits = runtime.device_limits();
    HK_ASSIGN(program::Dispatch dispatch, dispatch_of(name, constants));
    dispatch.subgroup_size = filling.lanes;
    dispatch.groups = filling.groups;
    dispatch.record = begin_record();
    dispatch.record.put(program::writes(lowering.named(program::ResourceKind::state, "sums",
                                                       {static_cast<int64_t>(filling.groups * filling.invocations)},
                                                       program::Storage::f32)));
    dispatch.record.put(iterations);
    for (const float number : numbers) dispatch.record.put(number);
    dispatch.flops = flops * iterations;
    lowering.append(std::move(dispatch));
    return lowering;
}

Loop unit_loop(program::Runtime& runtime, const std::string& name, const gpu::MatrixShape& shape) {
    constexpr double kChains = 4, kSteps = 8; // of unit.comp
    constexpr float kFactor = 0x1p-7f;
    const Filling filling = filling_of(runtime.device_limits());
    Loop loop;
    loop.invocations = static_cast<int64_t>(filling.groups * filling.invocations);
    loop.flops = 2.0 * shape.m * shape.n * shape.k * kChains * kSteps *
                 static_cast<double>(filling.groups * (filling.invocations / filling.lanes));
    const double each = static_cast<double>(shape.m * shape.n) / filling.lanes;
    for (uint32_t c = 0; c < 4; ++c)
        loop.expected += each * (c * static_cast<double>(kFactor) +
                                 kSteps * shape.k * static_cast<double>(kFactor * kFactor) * (c / 2 + 1) * (c % 2 + 1));
    loop.lower = [&runtime, name, shape, filling, flops = loop.flops](uint32_t iterations) {
        return lower_loop(runtime, name, {filling.invocations, shape.m, shape.n, shape.k}, filling, iterations,
                          {kFactor}, flops);
    };
    return loop;
}

Loop half_loop(program::Runtime& runtime) {
    constexpr int kPairs = 8, kSteps = 16; // of half.comp
    Filling filling = filling_of(runtime.device_limits());
    filling.lanes = 0;
    Loop loop;
    loop.invocations = static_cast<int64_t>(filling.groups * filling.invocations);
    loop.flops = 2.0 * 2 * kPairs * kSteps * static_cast<double>(loop.invocations);
    for (int c = 0; c < kPairs; ++c) { // x / 2 + 1 / 4 is exact until the last bits
        double x = c;
        for (int step = 0; step < kSteps; ++step)
            x = static_cast<double>(program::from_half(
                program::Storage::f16, program::to_half(program::Storage::f16, static_cast<float>(0.5 * x + 0.25))));
        loop.expected += 2 * x;
    }
    loop.lower = [&runtime, filling, flops = loop.flops](uint32_t iterations) {
        return lower_loop(runtime, "half", {filling.invocations}, filling, iterations, {0.5f, 0.25f}, flops);
    };
    return loop;
}

} // namespace

Result<report::Outcome> units(const Input& input) {
    program::Runtime& runtime = input.runtime;
    const gpu::Capabilities& device = runtime.gpu().capabilities();
    report::Outcome outcome;
    HK_TRY(warm_up(runtime));
    report::Line peaks = report::Line::object(), shapes = report::Line::array();
    const auto raise = [&](const std::string& type, double flops) {
        if (flops > peaks.value(type, 0.0)) peaks[type] = rounded(flops);
    };
    HK_ASSIGN(const double float32, program::peak_flops(runtime, program::Storage::f32));
    raise("f32", float32);
    if (device.float16 && has_kernel("half")) {
        HK_ASSIGN(const Measured half, measure(runtime, half_loop(runtime)));
        if (!half.problem.empty()) outcome.problem = "pairs of float16: " + half.problem;
        outcome.result["pairs_of_f16_flops"] = rounded(half.flops_per_second);
    }
    for (const gpu::MatrixShape& shape : device.matrix_shapes) {
        const std::string type = component_name(shape.a), sums = component_name(shape.result);
        const std::string kernel = fmt::format("unit.{}_{}", type, sums);
        if (shape.a != shape.b || shape.c != shape.result || !has_kernel(kernel)) continue;
        const std::string text = fmt::format("{}x{}x{}", shape.m, shape.n, shape.k);
        report::Line row{{"shape", text}, {"factors", type}, {"sums", sums}};
        const Result<Measured> measured = measure(runtime, unit_loop(runtime, kernel, shape));
        if (!measured.ok()) {
            row["problem"] = measured.message(); // one shape that the driver cannot compile is a finding
        } else if (!measured->problem.empty()) {
            row["problem"] = measured->problem;
            outcome.problem = fmt::format("{} {} {}: {}", text, type, sums, measured->problem);
        } else {
            row["flops"] = rounded(measured->flops_per_second);
            if (device.cores > 0) row["flops_per_core"] = rounded(measured->flops_per_second / device.cores);
            if (sums == "f32") raise(type, measured->flops_per_second);
        }
        shapes.push_back(std::move(row));
    }
    if (!outcome.problem.empty()) peaks = report::Line::object(); // times of a device that computes wrongly
    outcome.result["peak_flops"] = peaks;
    outcome.result["shapes"] = shapes;
    const auto used = [&](program::Storage storage) {
        const program::MatrixUnit unit = runtime.device_limits().matrix_unit(storage);
        return unit ? report::Line(fmt::format("{}x{}x{}", unit.m, unit.n, unit.k)) : report::Line();
    };
    outcome.result["used"] = {{"f16", used(program::Storage::f16)}, {"bf16", used(program::Storage::bf16)}};
    std::vector<std::string> texts;
    for (const auto& [type, flops] : peaks.items())
        texts.push_back(fmt::format("{} {:.4g} TFLOP/s", type, flops.get<double>() / 1e12));
    outcome.text = fmt::format("{}; {} shapes of matrix units", fmt::join(texts, ", "), shapes.size());
    return outcome;
}

} // namespace hekla::lab
