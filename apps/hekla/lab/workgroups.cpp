// Products by matrices of a whole workgroup (VK_NV_cooperative_matrix2), which the driver divides.
#include "gpu/capabilities.hpp"
#include "lab/variants.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace hekla::lab {
namespace {

struct Tile {
    uint32_t rows, columns, depth;
};
constexpr Tile kTiles[] = {{128, 128, 32}, {128, 128, 64}, {128, 256, 32},
                           {128, 256, 64}, {256, 128, 32}, {256, 128, 64}};

Variant workgroup_variant(program::Runtime& runtime, const Tile& tile, uint32_t invocations) {
    Variant variant{.name = fmt::format("{}x{}x{} by {}", tile.rows, tile.columns, tile.depth, invocations),
                    .rows = tile.rows,
                    .columns = tile.columns,
                    .depth = tile.depth};
    const uint32_t most = runtime.device_limits().max_group_invocations;
    if (invocations > most)
        variant.missing = fmt::format("workgroups of {} invocations are not possible; {} are", invocations, most);
    variant.lower = [&runtime, tile, invocations](const Product& p) -> Result<program::Lowering> {
        program::Lowering lowering;
        lowering.limits = runtime.device_limits();
        HK_ASSIGN(program::Dispatch dispatch,
                  dispatch_of("workgroup.f16", {tile.rows, tile.columns, tile.depth, p.transpose_a ? 1u : 0u,
                                                p.transpose_b ? 1u : 0u, invocations}));
        const auto matrix = [&](const char* name, int64_t elements, program::Storage storage) {
            return lowering.named(program::ResourceKind::state, name, {elements}, storage);
        };
        dispatch.record = begin_record();
        dispatch.record.put(program::reads(matrix("a", p.m * p.k, program::Storage::f16)));
        dispatch.record.put(program::reads(matrix("b", p.k * p.n, program::Storage::f16)));
        dispatch.record.put(program::writes(matrix("c", p.m * p.n, program::Storage::f32)));
        dispatch.record.put(static_cast<uint32_t>(p.m));
        dispatch.record.put(static_cast<uint32_t>(p.n));
        dispatch.record.put(static_cast<uint32_t>(p.k));
        dispatch.groups = static_cast<uint64_t>(p.m / tile.rows * (p.n / tile.columns));
        dispatch.flops = p.flops();
        lowering.append(std::move(dispatch));
        return lowering;
    };
    return variant;
}

} // namespace

Result<report::Outcome> workgroups(const Input& input) {
    const gpu::Capabilities& device = input.runtime.gpu().capabilities();
    if (!has_kernel("workgroup.f16")) return not_measured("the build has no kernel of such matrices");
    if (!device.cooperative_matrix_workgroups)
        return not_measured(
            "the driver has no matrices of a workgroup with loads from tensors (VK_NV_cooperative_matrix2)");
    std::vector<Variant> variants;
    for (const Tile& tile : kTiles) {
        if (std::max({tile.rows, tile.columns, tile.depth}) > device.workgroup_matrix_side) continue;
        std::set<uint32_t> invocations;
        for (const auto& [multiples, size] : device.workgroup_matrices)
            if (multiples.a == gpu::ComponentType::float16 && multiples.b == gpu::ComponentType::float16 &&
                multiples.result == gpu::ComponentType::float32 && tile.rows % multiples.m == 0 &&
                tile.columns % multiples.n == 0 && tile.depth % multiples.k == 0)
                invocations.insert(size);
        for (const uint32_t size : invocations) variants.push_back(workgroup_variant(input.runtime, tile, size));
    }
    if (variants.empty()) return not_measured("the driver has no such matrices of float16 with these sides");
    HK_ASSIGN(report::Outcome outcome,
              compare_variants(
                  input,
                  {{4096, 4096, 4096, false, false}, {4096, 4096, 4096, false, true}, {4096, 4096, 4096, true, false}},
                  variants));
    outcome.result["shared_bytes"] = device.workgroup_matrix_shared_bytes;
    return outcome;
}

} // namespace hekla::lab
