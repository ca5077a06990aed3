#include "lab/variants.hpp"

#include "program/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace hekla::lab {
namespace {

// A product that takes kMeasured at this speed, of sizes that every variant can compute.
Product whole_tiles(const std::vector<Variant>& variants, const Product& asked, double flops_per_second) {
    Product p = shortened(asked, flops_per_second, 256);
    int64_t rows = 1, columns = 1, depth = 1;
    for (const Variant& variant : variants) {
        if (!variant.missing.empty()) continue;
        rows = std::lcm(rows, variant.rows);
        columns = std::lcm(columns, variant.columns);
        depth = std::lcm(depth, variant.depth);
    }
    p.m = std::max(rows, p.m / rows * rows);
    p.n = std::max(columns, p.n / columns * columns);
    p.k = std::max(depth, p.k / depth * depth);
    return p;
}

Status upload_factors(program::TuningBench& bench, const Product& p) {
    HK_TRY(bench.upload("a", random_numbers(p.m * p.k, program::Storage::f16, 1)));
    return bench.upload("b", random_numbers(p.k * p.n, program::Storage::f16, 2));
}

// Returns the speed of a variant on a small product; 0: a device that executes nothing.
Result<double> probed_speed(program::Runtime& runtime, const Product& p, const Variant& variant) {
    HK_TRY(warm_up(runtime));
    HK_ASSIGN(const auto bench, make_bench(runtime));
    HK_TRY(upload_factors(*bench, p));
    HK_ASSIGN(const program::Lowering lowering, variant.lower(p));
    HK_ASSIGN(const std::size_t dispatches, bench->add(lowering));
    HK_ASSIGN(const double seconds, bench->run(dispatches));
    return seconds > 0 ? p.flops() / seconds : 0.0;
}

struct Running {
    const Variant* variant;
    std::unique_ptr<program::TuningBench> bench;
    std::size_t dispatches;
    double seconds;
};

// Runs a variant once. Returns what is wrong with its result.
Result<std::string> check(program::Runtime& runtime, const Product& p, const Variant& variant,
                          std::vector<Running>& running) {
    const std::vector<std::byte> a = random_numbers(p.m * p.k, program::Storage::f16, 1),
                                 b = random_numbers(p.k * p.n, program::Storage::f16, 2);
    HK_ASSIGN(auto bench, make_bench(runtime));
    HK_TRY(bench->upload("a", a));
    HK_TRY(bench->upload("b", b));
    std::vector<std::byte> x;
    if (variant.reads_x) {
        x = random_numbers(p.m * p.n, program::Storage::f16, 3);
        HK_TRY(bench->upload("x", x));
    }
    HK_ASSIGN(const program::Lowering lowering, variant.lower(p));
    HK_ASSIGN(const std::size_t dispatches, bench->add(lowering));
    HK_ASSIGN(const std::vector<std::byte> c, bench->download("c"));
    std::string wrong =
        compare_product(p, a, b, program::Storage::f16, c,
                        variant.rounds ? program::Storage::f16 : program::Storage::f32, variant.epilogue, x);
    if (wrong.empty()) running.push_back({&variant, std::move(bench), dispatches, HUGE_VAL});
    return wrong;
}

Result<report::Line> compare(const Input& input, const Product& asked, const std::vector<Variant>& variants,
                             std::string& problem) {
    program::Runtime& runtime = input.runtime;
    const auto first = std::ranges::find(variants, true, [](const Variant& one) { return one.missing.empty(); });
    HK_ASSIGN(const double peak, peak_of(input, program::Storage::f16));
    double speed = peak;
    if (first != variants.end()) {
        const Result<double> probed = probed_speed(runtime, whole_tiles(variants, asked, peak / 64), *first);
        if (probed.ok() && probed.value() > 0) speed = std::min(peak, 4 * probed.value());
    }
    const Product p = whole_tiles(variants, asked, speed);
    HK_TRY(warm_up(runtime));
    std::vector<Running> running;
    report::Line rows = report::Line::array();
    for (const Variant& variant : variants) {
        report::Line row{{"kernel", variant.name}};
        row.update(variant.facts);
        if (!variant.missing.empty()) {
            row["not_measured"] = variant.missing;
            rows.push_back(std::move(row));
            continue;
        }
        if (Result<std::string> wrong = check(runtime, p, variant, running); !wrong.ok()) {
            if (wrong.code() == Code::device_lost) return wrong.status();
            row["problem"] = wrong.message(); // one that the driver cannot compile is a finding
            rows.push_back(std::move(row));
        } else if (!wrong->empty()) {
            problem = fmt::format("{} {}: {}", variant.name, p.layout(), wrong.value());
            row["problem"] = wrong.value();
            rows.push_back(std::move(row));
        }
    }
    for (int turn = 0; turn < 3; ++turn)
        for (Running& one : running) {
            HK_ASSIGN(const double seconds, one.bench->run(one.dispatches));
            one.seconds = std::min(one.seconds, seconds);
        }
    for (const Running& one : running) {
        report::Line row{{"kernel", one.variant->name}};
        row.update(one.variant->facts);
        row["flops"] = rounded(one.seconds > 0 ? p.flops() / one.seconds : 0.0);
        rows.push_back(std::move(row));
    }
    return report::Line{{"layout", p.layout()}, {"m", p.m}, {"n", p.n}, {"k", p.k}, {"variants", rows}};
}

} // namespace

Result<report::Outcome> compare_variants(const Input& input, const std::vector<Product>& products,
                                         const std::vector<Variant>& variants) {
    report::Outcome outcome;
    report::Line rows = report::Line::array();
    std::vector<std::string> texts;
    for (const Product& product : products) {
        HK_ASSIGN(report::Line row, compare(input, product, variants, outcome.problem));
        std::vector<std::string> speeds;
        for (const report::Line& variant : row["variants"])
            if (variant.contains("flops"))
                speeds.push_back(
                    fmt::format("{} {:.4g}", variant.value("kernel", ""), variant.value("flops", 0.0) / 1e12));
        texts.push_back(fmt::format("{}: {}", product.layout(), fmt::join(speeds, ", ")));
        rows.push_back(std::move(row));
    }
    outcome.result["products"] = rows;
    outcome.text = fmt::format("TFLOP/s of {}", fmt::join(texts, "; "));
    return outcome;
}

} // namespace hekla::lab
