// The matrix multiplication kernels, as data. A new tile, or a kernel for new hardware, is a row of the table in
// matmul_kernels.cpp and a variant in its shader.
#pragma once

#include "program/lowering/limits.hpp"
#include "program/lowering/lowering.hpp"
#include "program/lowering/view.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::program {

// Kernels of one shader file, which share specialization constants.
enum class MatmulFamily : uint8_t {
    uniform, // matmul/uniform.comp: one subgroup per tile, loads with the same address in all lanes
    dot,     // matmul/dot.comp: few rows, B stored [N, K]; the lanes of one subgroup share K, loads as in uniform
    direct,  // matmul/direct.comp: one subgroup per tile, no shared memory
    tiled,   // matmul/tiled.comp: a workgroup of several subgroups per tile, through shared memory
    vector,  // matmul/vector.comp: few rows; a workgroup of several subgroups shares K
    matrix,  // matmul/matrix.comp: matrix units; factors in 16 bits
};

// Device requirements of a kernel. A device that does not meet them never gets the kernel.
struct MatmulNeeds {
    bool cpu = false; // the device is a CPU
    bool gpu = false; // the device is not a CPU
    bool uniform_loads = false;
    bool matrix_units = false;  // for the storage of the factors
    bool dense_along_k = false; // A is stored [M, K] and B [N, K]
    uint32_t invocations = 0;   // per workgroup; 0: one subgroup. With matrix units for subgroups of up to 32
    uint32_t shared_bytes = 0;  // per workgroup
};

// The products that a kernel suits. The first row that suits is preferred; others may still be measured.
struct MatmulSuits {
    uint32_t most_lanes = 0;          // of a subgroup; 0: any
    int64_t least_rows = 0;           // M of C, at least
    int64_t most_rows = 0;            // M of C, at most; 0: any
    int64_t least_columns = 0;        // N of C, at least
    bool one_tile_across = false;     // N is at most a tile's columns
    bool full_tiles = false;          // M is a multiple of a tile's rows, or more than 8 of them
    int64_t least_tiles = 0;          // tiles of C, batches included, at least
    bool every_core = false;          // at least a tile for every core, where splitting K adds tiles
    bool large_register_file = false; // Limits::large_register_file
};

struct MatmulKernel {
    std::string_view name; // the variant: shaders/matmul/NAME
    MatmulFamily family = MatmulFamily::direct;
    int64_t tile_m = 0;   // rows of C per tile
    int64_t tile_n = 0;   // columns of C per tile; uniform and direct: per lane; vector: see vector_columns()
    int64_t step = 1;     // the length of a split of K is a multiple of it
    bool measured = true; // a tuner measures it even if another kernel is preferred
    MatmulNeeds needs = {};
    MatmulSuits suits = {};

    bool columns_per_lane() const { return family == MatmulFamily::uniform || family == MatmulFamily::direct; }
    bool one_subgroup() const { return columns_per_lane() || family == MatmulFamily::dot; }
    bool requires_subgroup_size() const { return one_subgroup() || family == MatmulFamily::matrix; }
    int64_t columns(const Limits& limits) const { return columns_per_lane() ? tile_n * limits.subgroup_size : tile_n; }
};

// The properties of a product that the choice of a kernel depends on, in addition to the device.
struct MatmulShape {
    int64_t batches = 1, m = 0, n = 0, k = 0;
    bool transpose_a = false;       // A is stored [K, M]
    bool transpose_b = false;       // B is stored [N, K]
    Storage factors = Storage::f32; // the storage of A and B, if it is the same
    int64_t leading = 0;            // elements between rows as stored, the most of all operands
    bool grouped = false;           // the batches are parts of one product by groups of rows
};

// Returns all kernels, in order of preference.
std::span<const MatmulKernel> matmul_kernels();
const MatmulKernel* find_matmul_kernel(std::string_view name); // null if it does not exist
// Returns the kernels that can compute a product on a device, the preferred one first. Never empty.
std::vector<const MatmulKernel*> matmul_candidates(const Limits& limits, const MatmulShape& shape);
// Returns the kernel that reads a B by panels, all of one width; every one has the same bits.
const MatmulKernel& panel_kernel(int64_t rows);
// Returns the columns of a panel; 0: no kernel of the device reads panels.
int64_t panel_columns(const Limits& limits);
// Returns the limits with the subgroup size that the kernel has by rule.
Limits limits_of(const Limits& limits, const MatmulKernel& kernel);
// Returns the kernel with the numbers of parts of K and the subgroup sizes that are worth measuring, on GPUs.
KernelOption matmul_option(const Limits& limits, const MatmulKernel& kernel, const MatmulShape& shape);
// Returns the columns of C per workgroup. The limits are those of limits_of(), or with another subgroup size.
int64_t tile_columns(const Limits& limits, const MatmulKernel& kernel, const MatmulShape& shape);

// Returns the number of parts into which a GPU splits K, where a second pass adds their sums.
int64_t gpu_splits(const Limits& limits, const MatmulKernel& kernel, int64_t tiles, int64_t k);
// A product as two: of the first `length` rows or columns of C, and of the others. 0: one product. If the tiles of C
// leave cores idle in the last round only, K is then split for those tiles alone.
struct ProductCut {
    bool columns = false;
    int64_t length = 0;
};
ProductCut gpu_cut(const Limits& limits, const MatmulKernel& kernel, int64_t m, int64_t n, int64_t k);
// Returns the rows and columns of C that a subgroup of a kernel of the family matrix computes.
struct MatrixTile {
    uint32_t rows = 0, columns = 0;
};
MatrixTile matrix_tile(const MatmulKernel& kernel, uint32_t subgroup_size);
// Returns the invocations of a workgroup. With matrix units there are as many subgroups of 64 as of 32, so that a
// subgroup's sums stay in registers.
uint32_t invocations_of(const MatmulKernel& kernel, uint32_t subgroup_size);
// Returns the columns of C per workgroup of a kernel of the family vector: four per group of threads.
int64_t vector_columns(const Limits& limits, const MatmulKernel& kernel, const MatmulShape& shape);

} // namespace hekla::program
