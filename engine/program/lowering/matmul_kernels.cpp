#include "program/lowering/matmul_kernels.hpp"

#include "program/lowering/loop.hpp"

#include <algorithm>

namespace hekla::program {

namespace {

using enum MatmulFamily;

// Minimum rows of A for transposing a B that is stored [N, K], for kernels that need it dense along N.
constexpr int64_t kTransposeRows = 9;

// The reasons are in shaders/TRIED.md. On a CPU the highest tile that the rows fill and that leaves work for every
// core; on a GPU the large tile if there are enough of them.
constexpr MatmulKernel kKernels[] = {
    {.name = "uniform.t8x1",
     .family = uniform,
     .tile_m = 8,
     .tile_n = 1,
     .step = 16,
     .has_16_bit = false,
     .needs = {.uniform_loads = true},
     .suits = {.one_tile_across = true}},
    {.name = "uniform.t2x4",
     .family = uniform,
     .tile_m = 2,
     .tile_n = 4,
     .step = 16,
     .has_16_bit = false,
     .needs = {.uniform_loads = true},
     .suits = {.most_rows = 2}},
    {.name = "uniform.t6x4",
     .family = uniform,
     .tile_m = 6,
     .tile_n = 4,
     .step = 16,
     .has_16_bit = false,
     .needs = {.uniform_loads = true}},
    {.name = "tiled.t128",
     .family = tiled,
     .tile_m = 128,
     .tile_n = 128,
     .step = 8,
     .needs = {.gpu = true, .invocations = 256, .shared_bytes = 8448},
     .suits = {.least_rows = 65, .least_columns = 65, .least_tiles = 128}},
    {.name = "tiled.t64",
     .family = tiled,
     .tile_m = 64,
     .tile_n = 64,
     .step = 16,
     .needs = {.gpu = true, .invocations = 256, .shared_bytes = 8704}},
    {.name = "direct.t1x4",
     .family = direct,
     .tile_m = 1,
     .tile_n = 4,
     .step = 4,
     .measured = false,
     .needs = {.cpu = true},
     .suits = {.most_rows = 1}},
    {.name = "direct.t4x4", .family = direct, .tile_m = 4, .tile_n = 4, .step = 4, .suits = {.most_rows = 8}},
    {.name = "direct.t64x4",
     .family = direct,
     .tile_m = 64,
     .tile_n = 4,
     .step = 4,
     .needs = {.cpu = true},
     .suits = {.full_tiles = true, .least_tiles = 8}},
    {.name = "direct.t32x4",
     .family = direct,
     .tile_m = 32,
     .tile_n = 4,
     .step = 4,
     .needs = {.cpu = true},
     .suits = {.full_tiles = true, .least_tiles = 8}},
    {.name = "direct.t16x4", .family = direct, .tile_m = 16, .tile_n = 4, .step = 4},
};

bool can_run(const MatmulKernel& kernel, const Limits& limits, const MatmulShape& shape) {
    const MatmulNeeds& needs = kernel.needs;
    if ((needs.cpu && !limits.cpu) || (needs.gpu && limits.cpu)) return false;
    if (needs.uniform_loads && !limits.uniform_loads) return false;
    if (needs.invocations > limits.max_group_invocations || needs.shared_bytes > limits.shared_memory) return false;
    if (shape.has_16_bit && !kernel.has_16_bit) return false;
    return kernel.family != uniform || !shape.transpose_b || shape.m >= kTransposeRows;
}

bool suits(const MatmulKernel& kernel, const Limits& limits, const MatmulShape& shape) {
    const MatmulSuits& wanted = kernel.suits;
    const int64_t columns = kernel.columns(limits);
    const int64_t tiles = divide_up(shape.m, kernel.tile_m) * divide_up(shape.n, columns) * shape.batches;
    if (shape.m < wanted.least_rows || (wanted.most_rows > 0 && shape.m > wanted.most_rows)) return false;
    if (shape.n < wanted.least_columns || (wanted.one_tile_across && shape.n > columns)) return false;
    if (wanted.full_tiles && shape.m % kernel.tile_m != 0 && shape.m <= 8 * kernel.tile_m) return false;
    return tiles >= wanted.least_tiles;
}

} // namespace

std::span<const MatmulKernel> matmul_kernels() { return kKernels; }

const MatmulKernel* find_matmul_kernel(std::string_view name) {
    const auto* const found = std::ranges::find(kKernels, name, &MatmulKernel::name);
    return found == std::end(kKernels) ? nullptr : found;
}

std::vector<const MatmulKernel*> matmul_candidates(const Limits& limits, const MatmulShape& shape) {
    std::vector<const MatmulKernel*> candidates;
    for (const MatmulKernel& kernel : kKernels)
        if (can_run(kernel, limits, shape)) candidates.push_back(&kernel);
    // The last row has no requirements and suits everything.
    const auto preferred =
        std::ranges::find_if(candidates, [&](const MatmulKernel* kernel) { return suits(*kernel, limits, shape); });
    std::rotate(candidates.begin(), preferred, preferred + 1);
    std::erase_if(candidates,
                  [&](const MatmulKernel* kernel) { return kernel != candidates.front() && !kernel->measured; });
    return candidates;
}

} // namespace hekla::program
