#include "program/lowering/matmul_kernels.hpp"

#include "program/lowering/loop.hpp"

#include <algorithm>

namespace hekla::program {

namespace {

using enum MatmulFamily;

// Minimum rows of A for transposing a B that is stored [N, K], for kernels that need it dense along N.
constexpr int64_t kTransposeRows = 9;

// Kernels for GPUs have 32-bit offsets within a tile of up to 512 rows.
constexpr int64_t kMostLeading = int64_t{1} << 21;

// Parts of K that are worth measuring have at least this length, and partial sums at most this many elements in total.
constexpr int64_t kShortestPart = 128, kMostPartialSums = int64_t{1} << 24;

// The reasons are in shaders/TRIED.md. On a CPU the highest tile that the rows fill and that leaves work for every
// core; on a GPU a kernel for few rows, or the largest tile that leaves work for every core.
constexpr MatmulKernel kKernels[] = {
    {.name = "dot.r1",
     .family = dot,
     .tile_m = 1,
     .tile_n = 8,
     .step = 32,
     .measured = false,
     .needs = {.cpu = true, .uniform_loads = true, .dense_along_k = true},
     .suits = {.most_rows = 1}},
    {.name = "dot.r4",
     .family = dot,
     .tile_m = 4,
     .tile_n = 4,
     .step = 32,
     .measured = false,
     .needs = {.cpu = true, .uniform_loads = true, .dense_along_k = true},
     .suits = {.most_rows = 8}},
    {.name = "uniform.t8x1",
     .family = uniform,
     .tile_m = 8,
     .tile_n = 1,
     .step = 16,
     .needs = {.uniform_loads = true},
     .suits = {.one_tile_across = true}},
    {.name = "uniform.t1x6",
     .family = uniform,
     .tile_m = 1,
     .tile_n = 6,
     .step = 16,
     .measured = false,
     .needs = {.uniform_loads = true},
     .suits = {.most_rows = 1}},
    {.name = "uniform.t1x2",
     .family = uniform,
     .tile_m = 1,
     .tile_n = 2,
     .step = 16,
     .measured = false,
     .needs = {.uniform_loads = true},
     .suits = {.most_rows = 1}},
    {.name = "uniform.t2x4",
     .family = uniform,
     .tile_m = 2,
     .tile_n = 4,
     .step = 16,
     .needs = {.uniform_loads = true},
     .suits = {.most_rows = 2}},
    {.name = "uniform.t6x4", .family = uniform, .tile_m = 6, .tile_n = 4, .step = 16, .needs = {.uniform_loads = true}},
    {.name = "vector.r1",
     .family = vector,
     .tile_m = 1,
     .tile_n = 16,
     .step = 512,
     .measured = false,
     .needs = {.gpu = true, .invocations = 128, .shared_bytes = 2048},
     .suits = {.most_rows = 1}},
    {.name = "vector.r2",
     .family = vector,
     .tile_m = 2,
     .tile_n = 16,
     .step = 512,
     .measured = false,
     .needs = {.gpu = true, .invocations = 128, .shared_bytes = 4096},
     .suits = {.most_rows = 2}},
    {.name = "vector.r4",
     .family = vector,
     .tile_m = 4,
     .tile_n = 16,
     .step = 512,
     .measured = false,
     .needs = {.gpu = true, .invocations = 128, .shared_bytes = 8192},
     .suits = {.most_rows = 4}},
    {.name = "matrix.t128k64",
     .family = matrix,
     .tile_m = 128,
     .tile_n = 128,
     .step = 64,
     .needs = {.gpu = true, .matrix_units = true, .invocations = 256, .shared_bytes = 36864},
     .suits = {.most_lanes = 32, .least_rows = 65, .least_columns = 65, .every_core = true}},
    {.name = "matrix.t128x2",
     .family = matrix,
     .tile_m = 128,
     .tile_n = 128,
     .step = 32,
     .needs = {.gpu = true, .matrix_units = true, .invocations = 128, .shared_bytes = 40960},
     .suits = {.most_lanes = 32, .least_rows = 65, .least_columns = 65, .every_core = true}},
    {.name = "matrix.t128",
     .family = matrix,
     .tile_m = 128,
     .tile_n = 128,
     .step = 32,
     .needs = {.gpu = true, .matrix_units = true, .invocations = 128, .shared_bytes = 20480},
     .suits = {.least_rows = 65, .least_columns = 65, .every_core = true, .large_register_file = true}},
    {.name = "matrix.t64",
     .family = matrix,
     .tile_m = 64,
     .tile_n = 64,
     .step = 32,
     .needs = {.gpu = true, .matrix_units = true, .invocations = 64, .shared_bytes = 10240}},
    {.name = "tiled.t128",
     .family = tiled,
     .tile_m = 128,
     .tile_n = 128,
     .step = 8,
     .needs = {.gpu = true, .invocations = 256, .shared_bytes = 8448},
     .suits = {.least_rows = 65, .least_columns = 65, .every_core = true}},
    {.name = "tiled.t128x64",
     .family = tiled,
     .tile_m = 128,
     .tile_n = 64,
     .step = 8,
     .needs = {.gpu = true, .invocations = 128, .shared_bytes = 6400},
     .suits = {.least_rows = 65, .least_columns = 33, .every_core = true}},
    {.name = "tiled.t32x64",
     .family = tiled,
     .tile_m = 32,
     .tile_n = 64,
     .step = 16,
     .needs = {.gpu = true, .invocations = 128, .shared_bytes = 6656},
     .suits = {.most_rows = 32}},
    {.name = "tiled.t128x32",
     .family = tiled,
     .tile_m = 128,
     .tile_n = 32,
     .step = 16,
     .measured = false,
     .needs = {.gpu = true, .invocations = 128, .shared_bytes = 10752},
     .suits = {.one_tile_across = true}},
    {.name = "tiled.t64",
     .family = tiled,
     .tile_m = 64,
     .tile_n = 64,
     .step = 16,
     .needs = {.gpu = true, .invocations = 128, .shared_bytes = 8704}},
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

} // namespace

uint32_t invocations_of(const MatmulKernel& kernel, uint32_t subgroup_size) {
    if (kernel.needs.invocations == 0) return subgroup_size;
    return kernel.needs.invocations * (kernel.family == matrix ? std::max(1u, subgroup_size / 32) : 1);
}

namespace {

bool can_run(const MatmulKernel& kernel, const Limits& limits, const MatmulShape& shape) {
    const MatmulNeeds& needs = kernel.needs;
    if ((needs.cpu && !limits.cpu) || (needs.gpu && limits.cpu)) return false;
    if (needs.uniform_loads && !limits.uniform_loads) return false;
    if (invocations_of(kernel, limits.subgroup_size) > limits.max_group_invocations ||
        needs.shared_bytes > limits.shared_memory)
        return false;
    if (needs.matrix_units) {
        const MatrixUnit unit = limits.matrix_unit(shape.factors);
        // Sums pass through shared memory too: with small subgroups they need more of it.
        const uint32_t subgroups = invocations_of(kernel, limits.subgroup_size) / std::max(1u, limits.subgroup_size);
        const uint32_t sums = subgroups * unit.m * (limits.subgroup_size >= 32 ? 9 : 5) * 16;
        if (!unit || limits.subgroup_size < 8 || limits.subgroup_size > 64 || sums > limits.shared_memory) return false;
    }
    if (shape.grouped && (kernel.family == dot || kernel.family == vector)) return false;
    if (needs.dense_along_k && (shape.transpose_a || !shape.transpose_b)) return false;
    if (!kernel.one_subgroup() && shape.leading > kMostLeading) return false;
    return kernel.family != uniform || !shape.transpose_b || shape.m >= kTransposeRows;
}

bool suits(const MatmulKernel& kernel, const Limits& limits, const MatmulShape& shape) {
    const MatmulSuits& wanted = kernel.suits;
    const int64_t columns = kernel.columns(limits);
    const int64_t tiles = divide_up(shape.m, kernel.tile_m) * divide_up(shape.n, columns) * shape.batches;
    if (wanted.most_lanes > 0 && limits.subgroup_size > wanted.most_lanes) return false;
    if (wanted.large_register_file && !limits.large_register_file) return false;
    if (shape.m < wanted.least_rows || (wanted.most_rows > 0 && shape.m > wanted.most_rows)) return false;
    if (shape.n < wanted.least_columns || (wanted.one_tile_across && shape.n > columns)) return false;
    if (wanted.full_tiles && shape.m % kernel.tile_m != 0 && shape.m <= 8 * kernel.tile_m) return false;
    if (wanted.every_core && tiles * std::clamp<int64_t>(shape.k / 512, 1, 8) < limits.cores) return false;
    return tiles >= wanted.least_tiles;
}

// Returns the workgroups that a GPU executes at the same time, as far as the choice of tiles and splits depends on it:
// 512 invocations per core, as many as the registers of the large tiles permit on most devices.
int64_t resident_groups(const Limits& limits, const MatmulKernel& kernel) {
    const uint32_t invocations = invocations_of(kernel, limits.subgroup_size);
    return int64_t{limits.cores} * std::max<int64_t>(1, 512 / invocations);
}

} // namespace

std::span<const MatmulKernel> matmul_kernels() { return kKernels; }

const MatmulKernel* find_matmul_kernel(std::string_view name) {
    const auto* const found = std::ranges::find(kKernels, name, &MatmulKernel::name);
    return found == std::end(kKernels) ? nullptr : found;
}

const MatmulKernel& panel_kernel(int64_t rows) {
    return *find_matmul_kernel(rows == 1 ? "uniform.t1x2" : rows == 2 ? "uniform.t2x4" : "uniform.t6x4");
}

int64_t panel_columns(const Limits& limits) {
    if (!limits.cpu || !limits.uniform_loads || !limits.long_kernels) return 0;
    const MatmulKernel& kernel = panel_kernel(1);
    return kernel.columns(limits_of(limits, kernel));
}

std::vector<const MatmulKernel*> matmul_candidates(const Limits& limits, const MatmulShape& shape) {
    if (!limits.long_kernels) {
        const MatmulKernel* const few_rows = find_matmul_kernel("vector.r4");
        return {can_run(*few_rows, limits, shape) ? few_rows : find_matmul_kernel("direct.t4x4")};
    }
    std::vector<const MatmulKernel*> candidates;
    for (const MatmulKernel& kernel : kKernels)
        if (can_run(kernel, limits_of(limits, kernel), shape)) candidates.push_back(&kernel);
    // The last row has no requirements and suits everything.
    const auto preferred = std::ranges::find_if(
        candidates, [&](const MatmulKernel* kernel) { return suits(*kernel, limits_of(limits, *kernel), shape); });
    std::rotate(candidates.begin(), preferred, preferred + 1);
    std::erase_if(candidates,
                  [&](const MatmulKernel* kernel) { return kernel != candidates.front() && !kernel->measured; });
    return candidates;
}

Limits limits_of(const Limits& limits, const MatmulKernel& kernel) {
    return kernel.requires_subgroup_size() ? limits.with_subgroups_of(limits.subgroup_of_many_registers()) : limits;
}

int64_t tile_columns(const Limits& limits, const MatmulKernel& kernel, const MatmulShape& shape) {
    return kernel.family == MatmulFamily::vector ? vector_columns(limits, kernel, shape) : kernel.columns(limits);
}

KernelOption matmul_option(const Limits& device, const MatmulKernel& kernel, const MatmulShape& shape) {
    KernelOption option{.kernel = std::string(kernel.name), .matrix_units = kernel.needs.matrix_units};
    if (device.cpu) return option;
    const Limits limits = limits_of(device, kernel);
    const int64_t of_c = shape.batches * shape.m * shape.n;
    const int64_t tiles =
        divide_up(shape.m, kernel.tile_m) * divide_up(shape.n, tile_columns(limits, kernel, shape)) * shape.batches;
    const int64_t rule = gpu_splits(limits, kernel, tiles, shape.k);
    const auto add = [&](int64_t splits) {
        if (splits == rule || splits < 1) return;
        if (splits > 1 && (shape.k / splits < kShortestPart || splits * of_c > kMostPartialSums)) return;
        option.splits.push_back(static_cast<uint32_t>(splits));
    };
    add(rule / 2);
    if (tiles * rule < 4 * resident_groups(limits, kernel))
        for (const int64_t more : {2, 4}) add(more * rule);
    // Where lanes have as many registers at any size, other sizes are only for matrix units (shaders/TRIED.md).
    if (device.registers_at_any_width && kernel.family != matrix) return option;
    for (const uint32_t size : device.subgroup_sizes(invocations_of(kernel, device.min_subgroup_size)))
        if (size != limits.subgroup_size && can_run(kernel, device.with_subgroups_of(size), shape))
            option.lanes.push_back(size);
    return option;
}

// Times are in steps of one K of all resident workgroups.
namespace {

// Matrix units need about an eighth of the time per K.
int64_t faster(const MatmulKernel& kernel) { return kernel.family == matrix ? 8 : 1; }

constexpr int64_t kDispatch = 64;
constexpr int64_t kPartOfC = 256; // a write and a read of a tile per workgroup take about as long

struct Splits {
    int64_t count = 1, time = 0;
};

Splits splits_of(const Limits& limits, const MatmulKernel& kernel, int64_t tiles, int64_t k) {
    // A second pass costs a dispatch and, for each part, a write and a read of C.
    const int64_t shortest = kernel.family == vector ? 4096 : 256;
    const int64_t resident = resident_groups(limits, kernel);
    Splits best{1, divide_up(tiles, resident) * k};
    for (int64_t splits = 2; splits <= std::min<int64_t>(k / shortest, 64); ++splits) {
        const int64_t time = divide_up(divide_up(tiles * splits, resident) * k, splits) + faster(kernel) * kDispatch +
                             divide_up(faster(kernel) * kPartOfC * tiles * splits, resident);
        if (time < best.time) best = {splits, time};
    }
    return best;
}

} // namespace

int64_t gpu_splits(const Limits& limits, const MatmulKernel& kernel, int64_t tiles, int64_t k) {
    return splits_of(limits, kernel, tiles, k).count;
}

ProductCut gpu_cut(const Limits& limits, const MatmulKernel& kernel, int64_t m, int64_t n, int64_t k) {
    const int64_t tile_n = kernel.columns(limits);
    const int64_t down = divide_up(m, kernel.tile_m), across = divide_up(n, tile_n);
    ProductCut best;
    int64_t best_time = splits_of(limits, kernel, down * across, k).time;
    const auto time = [&](int64_t lines, int64_t tiles) { return splits_of(limits, kernel, lines * tiles, k).time; };
    // The second product also reads the factor again that is not cut.
    const auto reading = [&](int64_t lines) {
        return divide_up(faster(kernel) * kPartOfC * lines * k, 2 * tile_n * resident_groups(limits, kernel));
    };
    for (const bool columns : {false, true}) {
        const int64_t length = columns ? across : down, width = columns ? down : across;
        for (int64_t first = length - 1; first > 0; --first) {
            const int64_t both =
                time(first, width) + time(length - first, width) + kDispatch * faster(kernel) + reading(width);
            if (both >= best_time) continue;
            best_time = both;
            best = {columns, first * (columns ? tile_n : kernel.tile_m)};
        }
    }
    return best;
}

MatrixTile matrix_tile(const MatmulKernel& kernel, uint32_t subgroup_size) {
    const auto elements =
        static_cast<uint32_t>(kernel.tile_m * kernel.tile_n) * subgroup_size / invocations_of(kernel, subgroup_size);
    uint32_t columns = 64;
    while (columns > 16 && columns * columns > 2 * elements) columns /= 2;
    return {elements / columns, columns};
}

int64_t vector_columns(const Limits& limits, const MatmulKernel& kernel, const MatmulShape& shape) {
    // B [N, K] is read along K by as many threads as K has vectors for; B [K, N] along N in segments of at least 32
    // bytes of float32. Fewer columns per workgroup are more workgroups.
    int64_t across = shape.transpose_b ? 4 : 16;
    const int64_t fewest = shape.transpose_b ? 1 : 2;
    const auto groups = [&] {
        return divide_up(shape.m, kernel.tile_m) * divide_up(shape.n, 4 * across) * shape.batches;
    };
    while (across > fewest && groups() < 2 * int64_t{limits.cores} && 4 * 128 / (across / 2) <= shape.k) across /= 2;
    return 4 * across;
}

} // namespace hekla::program
