// Variants of one product kernel, measured against each other: what the engine's kernels may gain.
#include "gpu/capabilities.hpp"
#include "lab/kernel.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::lab {
namespace {

// The rows and columns of a subgroup. On a CPU, whose compiler takes minutes for the code of the usual ones, few: there
// the variants are only checked.
uint32_t subgroup_side(const program::Limits& limits) { return limits.cpu ? 16 : 64; }
int64_t tile_side(const program::Limits& limits) { return 2 * subgroup_side(limits); }

struct Variant {
    std::string kernel;         // a variant of product.comp
    uint32_t rows_of_tiles = 1; // of a super-tile
};

// A product that takes kMeasured at this speed, of whole tiles.
Product whole_tiles(const program::Limits& limits, const Product& asked, double flops_per_second) {
    Product p = shortened(asked, flops_per_second, 256);
    const int64_t side = tile_side(limits);
    for (int64_t* size : {&p.m, &p.n}) *size = std::max(side, *size / side * side);
    return p;
}

bool has_gelu(const Variant& variant) { return variant.kernel.starts_with("gelu"); }
bool has_gradient(const Variant& variant) { return variant.kernel.starts_with("gelu_gradient"); }

constexpr double kGelu = 0.79788456080286535588; // sqrt(2 / pi)
double gelu(double x, double) { return 0.5 * x * (1.0 + std::tanh(kGelu * (x + 0.044715 * x * x * x))); }
double gelu_gradient(double dy, double x) {
    const double t = std::tanh(kGelu * (x + 0.044715 * x * x * x));
    return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kGelu * (1.0 + 3 * 0.044715 * x * x));
}

int64_t shared_bytes(const Variant& variant, const program::Limits& limits) {
    const int64_t side = tile_side(limits), depth = variant.kernel == "deep" ? 64 : 32;
    return 2 * 16 * (side * depth / 8 + std::max(side, depth));
}

// Returns why the kernels of this file cannot run; empty: they can.
std::string missing(program::Runtime& runtime) {
    const program::Limits& limits = runtime.device_limits();
    if (!has_kernel("product.near")) return "the build has no kernels of matrix units";
    if (!limits.matrix_f16) return "the device has no matrix units for float16 that kernels can use";
    const program::MatrixUnit unit = limits.matrix_f16;
    if (4 * limits.subgroup_of_many_registers() > limits.max_group_invocations)
        return "workgroups of four subgroups are not possible";
    const int64_t bytes = shared_bytes({"near"}, limits);
    if (bytes > limits.shared_memory || 4 * unit.m * (unit.n / 4 + 1) * 16 > bytes)
        return fmt::format("{} bytes of shared memory are needed", bytes);
    return {};
}

Result<program::Lowering> lower_variant(program::Runtime& runtime, const Product& p, const Variant& variant) {
    program::Lowering lowering;
    lowering.limits = runtime.device_limits();
    const uint32_t lanes = lowering.limits.subgroup_of_many_registers();
    const program::MatrixUnit unit = lowering.limits.matrix_f16;
    HK_ASSIGN(program::Dispatch dispatch,
              dispatch_of("product." + variant.kernel,
                          {lanes, unit.m, unit.n, unit.k, p.transpose_a ? 1u : 0u, p.transpose_b ? 1u : 0u, 4 * lanes,
                           subgroup_side(lowering.limits), subgroup_side(lowering.limits)}));
    const auto matrix = [&](const char* name, int64_t elements, program::Storage storage) {
        return lowering.named(program::ResourceKind::state, name, {elements}, storage);
    };
    dispatch.subgroup_size = lanes;
    dispatch.record = begin_record();
    const auto a = matrix("a", p.m * p.k, program::Storage::f16);
    dispatch.record.put(program::reads(a));
    dispatch.record.put(program::reads(matrix("b", p.k * p.n, program::Storage::f16)));
    dispatch.record.put(
        program::writes(matrix("c", p.m * p.n, has_gelu(variant) ? program::Storage::f16 : program::Storage::f32)));
    dispatch.record.put(static_cast<uint32_t>(p.m));
    dispatch.record.put(static_cast<uint32_t>(p.n));
    dispatch.record.put(static_cast<uint32_t>(p.k));
    dispatch.record.put(variant.rows_of_tiles);
    dispatch.record.put(program::reads(has_gradient(variant) ? matrix("x", p.m * p.n, program::Storage::f16) : a));
    const int64_t side = tile_side(lowering.limits);
    dispatch.groups = static_cast<uint64_t>(p.m / side * (p.n / side));
    dispatch.flops = p.flops();
    lowering.append(std::move(dispatch));
    return lowering;
}

// Returns the speed of a variant on a small product; 0: a device that executes nothing.
Result<double> probed_variant_speed(program::Runtime& runtime, const Product& asked, const Variant& variant,
                                    double peak) {
    HK_TRY(warm_up(runtime));
    const Product p = whole_tiles(runtime.device_limits(), asked, peak / 64);
    HK_ASSIGN(const auto bench, make_bench(runtime));
    HK_TRY(bench->upload("a", random_numbers(p.m * p.k, program::Storage::f16, 1)));
    HK_TRY(bench->upload("b", random_numbers(p.k * p.n, program::Storage::f16, 2)));
    HK_ASSIGN(const program::Lowering lowering, lower_variant(runtime, p, variant));
    HK_ASSIGN(const std::size_t dispatches, bench->add(lowering));
    HK_ASSIGN(const double seconds, bench->run(dispatches));
    return seconds > 0 ? p.flops() / seconds : 0.0;
}

// Measures variants of a product, in turns, each checked first.
Result<report::Line> compare_variants(const Input& input, const Product& asked, const std::vector<Variant>& variants,
                                      std::string& problem) {
    program::Runtime& runtime = input.runtime;
    HK_ASSIGN(const double peak, peak_of(input, program::Storage::f16));
    HK_ASSIGN(const double probed, probed_variant_speed(runtime, asked, variants.front(), peak));
    const program::Limits& limits = runtime.device_limits();
    const Product p = whole_tiles(limits, asked, probed > 0 ? std::min(peak, 4 * probed) : peak);
    const std::vector<std::byte> a = random_numbers(p.m * p.k, program::Storage::f16, 1),
                                 b = random_numbers(p.k * p.n, program::Storage::f16, 2);
    HK_TRY(warm_up(runtime));
    struct Running {
        const Variant* variant;
        std::unique_ptr<program::TuningBench> bench;
        std::size_t dispatches;
        double seconds;
    };
    std::vector<Running> running;
    report::Line rows = report::Line::array();
    for (const Variant& variant : variants) {
        if (p.m / tile_side(limits) % variant.rows_of_tiles != 0) continue;
        if (shared_bytes(variant, limits) > limits.shared_memory) {
            rows.push_back(
                {{"kernel", variant.kernel},
                 {"rows_of_tiles", variant.rows_of_tiles},
                 {"not_measured", fmt::format("{} bytes of shared memory are needed", shared_bytes(variant, limits))}});
            continue;
        }
        HK_ASSIGN(auto bench, make_bench(runtime));
        HK_TRY(bench->upload("a", a));
        HK_TRY(bench->upload("b", b));
        std::vector<std::byte> x;
        if (has_gradient(variant)) {
            x = random_numbers(p.m * p.n, program::Storage::f16, 3);
            HK_TRY(bench->upload("x", x));
        }
        HK_ASSIGN(const program::Lowering lowering, lower_variant(runtime, p, variant));
        HK_ASSIGN(const std::size_t dispatches, bench->add(lowering));
        HK_ASSIGN(const std::vector<std::byte> c, bench->download("c"));
        const program::Storage stored = has_gelu(variant) ? program::Storage::f16 : program::Storage::f32;
        if (const std::string wrong = compare_product(p, a, b, program::Storage::f16, c, stored,
                                                      has_gradient(variant) ? gelu_gradient
                                                      : has_gelu(variant)   ? gelu
                                                                            : nullptr,
                                                      x);
            !wrong.empty()) {
            problem = fmt::format("{} {}: {}", variant.kernel, p.layout(), wrong);
            rows.push_back({{"kernel", variant.kernel}, {"rows_of_tiles", variant.rows_of_tiles}, {"problem", wrong}});
            continue;
        }
        running.push_back({&variant, std::move(bench), dispatches, HUGE_VAL});
    }
    for (int turn = 0; turn < 3; ++turn)
        for (Running& one : running) {
            HK_ASSIGN(const double seconds, one.bench->run(one.dispatches));
            one.seconds = std::min(one.seconds, seconds);
        }
    for (const Running& one : running)
        rows.push_back({{"kernel", one.variant->kernel},
                        {"rows_of_tiles", one.variant->rows_of_tiles},
                        {"flops", rounded(one.seconds > 0 ? p.flops() / one.seconds : 0.0)}});
    return report::Line{{"layout", p.layout()}, {"m", p.m}, {"n", p.n}, {"k", p.k}, {"variants", rows}};
}

Result<report::Outcome> run_variants(const Input& input, const std::vector<Product>& products,
                                     const std::vector<Variant>& variants) {
    report::Outcome outcome;
    if (const std::string lack = missing(input.runtime); !lack.empty()) {
        outcome.result["not_measured"] = lack;
        outcome.text = "not measured: " + lack;
        return outcome;
    }
    report::Line rows = report::Line::array();
    std::vector<std::string> texts;
    for (const Product& product : products) {
        HK_ASSIGN(report::Line row, compare_variants(input, product, variants, outcome.problem));
        std::vector<std::string> speeds;
        for (const report::Line& variant : row["variants"])
            speeds.push_back(fmt::format("{}{} {:.4g}", variant.value("kernel", ""),
                                         variants.front().rows_of_tiles != variants.back().rows_of_tiles
                                             ? fmt::format(" x {}", variant.value("rows_of_tiles", 1))
                                             : "",
                                         variant.value("flops", 0.0) / 1e12));
        texts.push_back(fmt::format("{}: {}", product.layout(), fmt::join(speeds, ", ")));
        rows.push_back(std::move(row));
    }
    outcome.result["products"] = rows;
    outcome.text = fmt::format("TFLOP/s of {}", fmt::join(texts, "; "));
    return outcome;
}

} // namespace

Result<report::Outcome> stores(const Input& input) {
    return run_variants(
        input, {{4096, 4096, 4096, false, false}, {4096, 4096, 4096, false, true}, {4096, 4096, 4096, true, false}},
        {{"near"}, {"spread"}, {"deep"}});
}

Result<report::Outcome> epilogues(const Input& input) {
    return run_variants(
        input, {{16384, 3072, 768, false, false}},
        {{"near"}, {"gelu"}, {"gelu_short"}, {"gelu_batched"}, {"gelu_gradient"}, {"gelu_gradient_short"}});
}

Result<report::Outcome> orders(const Input& input) {
    return run_variants(input, {{4096, 50304, 768, false, true}, {4096, 768, 50304, false, false}},
                        {{"near", 1}, {"near", 4}, {"near", 8}, {"near", 16}});
}

} // namespace hekla::lab
