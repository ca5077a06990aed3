#include "base/stopwatch.hpp"
#include "lab/kernel.hpp"
#include "program/lowering/half.hpp"
#include "program/lowering/matmul_problem.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::lab {
namespace {

struct Named {
    const char* name;
    Product product;
};
// A square, and the products of a step of GPT-2 124M with 16,384 tokens.
constexpr Named kProducts[] = {
    {"square", {4096, 4096, 4096, false, true}}, {"square", {4096, 4096, 4096, false, false}},
    {"square", {4096, 4096, 4096, true, false}}, {"widen", {16384, 3072, 768, false, false}},
    {"narrow", {16384, 768, 3072, false, true}}, {"weight gradient", {768, 3072, 16384, true, false}},
    {"logits", {4096, 50304, 768, false, true}},
};

program::KernelProblem problem_of(const program::Limits& limits, const Product& p, program::Storage factors) {
    program::MatmulShape shape{
        .m = p.m, .n = p.n, .k = p.k, .transpose_a = p.transpose_a, .transpose_b = p.transpose_b, .factors = factors};
    shape.leading = std::max({p.transpose_a ? p.m : p.k, p.transpose_b ? p.k : p.n, p.n});
    return program::matmul_problem(limits, shape, {factors, factors, factors});
}

program::Lowering lowered(const program::Limits& limits, const program::KernelTrial& trial, const std::string& kernel) {
    program::Lowering lowering;
    lowering.limits = limits;
    lowering.trial = program::KernelChoice{.kernel = kernel};
    trial.lower(lowering);
    return lowering;
}

// Returns the speed of the preferred kernel on a product that is short at any speed; 0: it cannot be run.
double probed_speed(program::Runtime& runtime, const Product& asked, program::Storage factors, double peak) {
    const Product p = shortened(asked, peak / 64, 256);
    const program::Limits& limits = runtime.device_limits();
    const program::KernelProblem kernels = problem_of(limits, p, factors);
    const auto measure = [&]() -> Result<double> {
        HK_ASSIGN(const auto bench, make_bench(runtime));
        HK_TRY(bench->upload("a", random_numbers(p.m * p.k, factors, 1)));
        HK_TRY(bench->upload("b", random_numbers(p.k * p.n, factors, 2)));
        HK_ASSIGN(const std::size_t dispatches, bench->add(lowered(limits, kernels.trial(HUGE_VAL, int64_t{1} << 40),
                                                                   kernels.kernels.front().kernel)));
        HK_ASSIGN(const double seconds, bench->run(dispatches));
        return seconds > 0 ? p.flops() / seconds : 0.0;
    };
    const Result<double> speed = measure();
    return speed.ok() ? speed.value() : 0.0; // the same error is reported where the kernel is measured
}

// Measures every kernel of a product. A kernel that fails is a row with a problem.
Result<report::Line> measure_product(const Input& input, const Named& named, program::Storage factors,
                                     std::string& problem) {
    program::Runtime& runtime = input.runtime;
    const program::Limits& limits = runtime.device_limits();
    HK_ASSIGN(const double peak, peak_of(input, limits.matrix_unit(factors) ? factors : program::Storage::f32));
    HK_TRY(warm_up(runtime));
    // The fastest kernel may be several times as fast as the preferred one.
    const double probed = probed_speed(runtime, named.product, factors, peak);
    const Product p = shortened(named.product, probed > 0 ? std::min(peak, 4 * probed) : peak, 256);
    const program::KernelProblem kernels = problem_of(limits, p, factors);
    const program::KernelTrial trial = kernels.trial(HUGE_VAL, int64_t{1} << 40);
    HK_ASSIGN(const auto bench, make_bench(runtime));
    const std::vector<std::byte> a = random_numbers(p.m * p.k, factors, 1), b = random_numbers(p.k * p.n, factors, 2);
    HK_TRY(bench->upload("a", a));
    HK_TRY(bench->upload("b", b));
    report::Line row{{"name", named.name},
                     {"layout", p.layout()},
                     {"factors", program::storage_name(factors)},
                     {"m", p.m},
                     {"n", p.n},
                     {"k", p.k},
                     {"peak_flops", rounded(peak)},
                     {"preferred", kernels.kernels.front().kernel},
                     {"kernels", report::Line::array()}};
    struct Running {
        report::Line line;
        std::size_t dispatches = 0;
        double seconds = HUGE_VAL; // if it can be run
    };
    std::vector<Running> running;
    for (const program::KernelOption& option : kernels.kernels) {
        Running& one = running.emplace_back();
        one.line["kernel"] = option.kernel;
        const program::Lowering lowering = lowered(limits, trial, option.kernel);
        const auto check = [&]() -> Result<std::string> {
            HK_ASSIGN(one.dispatches, bench->add(lowering));
            HK_ASSIGN(const std::vector<std::byte> c, bench->download("c"));
            std::string wrong = compare_product(p, a, b, factors, c, factors);
            if (!wrong.empty())
                problem = fmt::format("{} {} {}: {}", option.kernel, p.layout(), program::storage_name(factors), wrong);
            return wrong;
        };
        const Result<std::string> checked = check();
        if (checked.code() == Code::device_lost) return checked.status();
        if (!checked.ok() || !checked->empty()) {
            one.line["problem"] = checked.ok() ? checked.value() : checked.message();
            one.seconds = 0;
        }
    }
    // In turns, so that a clock that changes concerns all.
    HK_TRY(warm_up(runtime));
    for (int turn = 0; turn < 3; ++turn)
        for (Running& one : running) {
            if (one.seconds == 0) continue;
            HK_ASSIGN(const double seconds, bench->run(one.dispatches));
            one.seconds = std::min(one.seconds, seconds);
        }
    double best = 0;
    for (Running& one : running) {
        if (one.seconds > 0) {
            one.line["flops"] = rounded(p.flops() / one.seconds);
            if (peak > 0) one.line["of_peak"] = rounded(p.flops() / one.seconds / peak);
            best = std::max(best, p.flops() / one.seconds);
        }
        row["kernels"].push_back(std::move(one.line));
    }
    row["best_flops"] = rounded(best);
    return row;
}

} // namespace

Result<report::Outcome> products(const Input& input) {
    const auto begin = std::chrono::steady_clock::now();
    const program::Limits& limits = input.runtime.device_limits();
    std::vector<program::Storage> storages;
    for (const program::Storage storage : {program::Storage::bf16, program::Storage::f16})
        if (limits.matrix_unit(storage)) storages.push_back(storage);
    storages.push_back(program::Storage::f32);
    report::Outcome outcome;
    report::Line rows = report::Line::array();
    for (const program::Storage factors : storages)
        for (const Named& named : kProducts) {
            // float32 and the second 16-bit type are measured on the square and one product.
            if (factors != storages.front() && std::string_view(named.name) != "square" &&
                std::string_view(named.name) != "widen")
                continue;
            if (seconds_since(begin) > input.seconds) break;
            HK_ASSIGN(report::Line row, measure_product(input, named, factors, outcome.problem));
            rows.push_back(std::move(row));
        }
    std::vector<std::string> texts;
    for (const report::Line& row : rows)
        if (row.value("name", "") == "square")
            texts.push_back(fmt::format("{} {} {:.4g}", row.value("factors", ""), row.value("layout", ""),
                                        row.value("best_flops", 0.0) / 1e12));
    outcome.result = {{"products", rows}};
    outcome.text = fmt::format("best kernels, square, TFLOP/s: {}", fmt::join(texts, ", "));
    return outcome;
}

} // namespace hekla::lab
