// One product by matrix units of a subgroup, in forms that differ in one decision: what the engine's kernels may gain.
#include "gpu/capabilities.hpp"
#include "lab/variants.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::lab {
namespace {

// The rows and columns of a subgroup. On a CPU, whose compiler takes minutes for the code of the usual ones, few: there
// the variants are only checked.
uint32_t subgroup_side(const program::Limits& limits) { return limits.cpu ? 16 : 64; }

constexpr double kGelu = 0.79788456080286535588; // sqrt(2 / pi)
double gelu(double x, double) { return 0.5 * x * (1.0 + std::tanh(kGelu * (x + 0.044715 * x * x * x))); }
double gelu_gradient(double dy, double x) {
    const double t = std::tanh(kGelu * (x + 0.044715 * x * x * x));
    return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kGelu * (1.0 + 3 * 0.044715 * x * x));
}

// Returns why no kernel of this file can run; empty: they can.
std::string missing(program::Runtime& runtime) {
    const program::Limits& limits = runtime.device_limits();
    if (!has_kernel("product.near")) return "the build has no kernels of matrix units";
    if (!limits.matrix_f16) return "the device has no matrix units for float16 that kernels can use";
    if (4 * limits.subgroup_of_many_registers() > limits.max_group_invocations)
        return "workgroups of four subgroups are not possible";
    return {};
}

// A variant of product.comp. rows_of_tiles: of a super-tile.
Variant tile_variant(program::Runtime& runtime, const std::string& kernel, uint32_t rows_of_tiles,
                     const program::MatrixUnit& unit) {
    const program::Limits& limits = runtime.device_limits();
    const int64_t side = 2 * int64_t{subgroup_side(limits)}, depth = kernel == "deep" ? 64 : 32;
    const int64_t bytes = 2 * 16 * (side * depth / 8 + std::max(side, depth));
    const bool gelus = kernel.starts_with("gelu"), gradient = kernel.starts_with("gelu_gradient");
    Variant variant{.name = rows_of_tiles == 1 ? kernel : fmt::format("{} x {}", kernel, rows_of_tiles),
                    .facts = {{"rows_of_tiles", rows_of_tiles}},
                    .rows = side * rows_of_tiles,
                    .columns = side,
                    .depth = depth,
                    .rounds = gelus,
                    .epilogue = gradient ? gelu_gradient
                                : gelus  ? gelu
                                         : nullptr,
                    .reads_x = gradient};
    if (bytes > limits.shared_memory || 4 * unit.m * (unit.n / 4 + 1) * 16 > bytes)
        variant.missing = fmt::format("{} bytes of shared memory are needed", bytes);
    variant.lower = [&runtime, kernel, rows_of_tiles, unit, gelus, gradient,
                     side](const Product& p) -> Result<program::Lowering> {
        program::Lowering lowering;
        lowering.limits = runtime.device_limits();
        const uint32_t lanes = lowering.limits.subgroup_of_many_registers();
        HK_ASSIGN(program::Dispatch dispatch,
                  dispatch_of("product." + kernel,
                              {lanes, unit.m, unit.n, unit.k, p.transpose_a ? 1u : 0u, p.transpose_b ? 1u : 0u,
                               4 * lanes, subgroup_side(lowering.limits), subgroup_side(lowering.limits)}));
        const auto matrix = [&](const char* name, int64_t elements, program::Storage storage) {
            return lowering.named(program::ResourceKind::state, name, {elements}, storage);
        };
        dispatch.subgroup_size = lanes;
        dispatch.record = begin_record();
        const auto a = matrix("a", p.m * p.k, program::Storage::f16);
        dispatch.record.put(program::reads(a));
        dispatch.record.put(program::reads(matrix("b", p.k * p.n, program::Storage::f16)));
        dispatch.record.put(
            program::writes(matrix("c", p.m * p.n, gelus ? program::Storage::f16 : program::Storage::f32)));
        dispatch.record.put(static_cast<uint32_t>(p.m));
        dispatch.record.put(static_cast<uint32_t>(p.n));
        dispatch.record.put(static_cast<uint32_t>(p.k));
        dispatch.record.put(rows_of_tiles);
        dispatch.record.put(program::reads(gradient ? matrix("x", p.m * p.n, program::Storage::f16) : a));
        dispatch.groups = static_cast<uint64_t>(p.m / side * (p.n / side));
        dispatch.flops = p.flops();
        lowering.append(std::move(dispatch));
        return lowering;
    };
    return variant;
}

Result<report::Outcome> compare_kernels(const Input& input, const std::vector<Product>& products,
                                        const std::vector<std::string>& kernels,
                                        const std::vector<uint32_t>& super_tiles = {1}) {
    if (const std::string lack = missing(input.runtime); !lack.empty()) return not_measured(lack);
    std::vector<Variant> variants;
    for (const std::string& kernel : kernels)
        for (const uint32_t rows : super_tiles)
            variants.push_back(tile_variant(input.runtime, kernel, rows, input.runtime.device_limits().matrix_f16));
    return compare_variants(input, products, variants);
}

} // namespace

Result<report::Outcome> stores(const Input& input) {
    return compare_kernels(
        input, {{4096, 4096, 4096, false, false}, {4096, 4096, 4096, false, true}, {4096, 4096, 4096, true, false}},
        {"near", "spread", "deep"});
}

Result<report::Outcome> shapes(const Input& input) {
    if (const std::string lack = missing(input.runtime); !lack.empty()) return not_measured(lack);
    std::vector<Variant> variants;
    for (const gpu::MatrixShape& shape : input.runtime.gpu().capabilities().matrix_shapes) {
        if (shape.a != gpu::ComponentType::float16 || shape.b != shape.a || shape.c != gpu::ComponentType::float32 ||
            shape.result != shape.c)
            continue;
        // What divides the tile of a subgroup, and the 32 of K.
        const uint32_t side = subgroup_side(input.runtime.device_limits());
        if (side % shape.m != 0 || side % shape.n != 0 || 32 % shape.k != 0) continue;
        Variant variant = tile_variant(input.runtime, "near", 1, {shape.m, shape.n, shape.k});
        variant.name = fmt::format("{}x{}x{}", shape.m, shape.n, shape.k);
        if (std::ranges::count(variants, variant.name, &Variant::name) == 0) variants.push_back(std::move(variant));
    }
    HK_ASSIGN(report::Outcome outcome, compare_variants(input, {{4096, 4096, 4096, false, true}}, variants));
    const program::MatrixUnit used = input.runtime.device_limits().matrix_f16;
    outcome.result["used"] = fmt::format("{}x{}x{}", used.m, used.n, used.k);
    return outcome;
}

Result<report::Outcome> epilogues(const Input& input) {
    return compare_kernels(input, {{16384, 3072, 768, false, false}},
                           {"near", "gelu", "gelu_short", "gelu_batched", "gelu_gradient", "gelu_gradient_short"});
}

Result<report::Outcome> orders(const Input& input) {
    return compare_kernels(input, {{4096, 50304, 768, false, true}, {4096, 768, 50304, false, false}}, {"near"},
                           {1, 4, 8, 16});
}

} // namespace hekla::lab
