// What a GPU's memories do with the accesses of matmul/matrix.comp, counted without a GPU: wavefronts of shared memory,
// and bytes read from memory by an order of tiles. They rank variants of one kernel; they are not times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace drivers {

// A workgroup's tile: rows x columns of the result, `step` of K at a time, copied by `threads`; a subgroup of 32
// multiplies sub_rows x sub_columns of it. (Subgroups of other sizes: as if a fragment were read in the same way.)
struct MatrixTile {
    uint32_t rows = 0, columns = 0, step = 0, threads = 0, sub_rows = 0, sub_columns = 0;
    uint32_t subgroup = 32;
};

// How the threads share the copying of a factor that is dense along K.
enum class Stores {
    adjacent,   // neighbors write the same row, then the next one (place_of in matrix.comp)
    four_apart, // the two rows of eight neighbors are four apart
};

// Returns the wavefronts of one access of 16 bytes by each lane: eight lanes are served at a time, and a wavefront
// serves each of the 32 banks once. units: of each lane, its address / 16.
uint32_t wavefronts_of(std::span<const uint32_t> units);

// Returns the wavefronts of shared memory in one step of K, scaled to a tile of 128 x 128 x 32. a_along_k, b_along_k:
// the factor is dense along K (N and T of BLAS: NN, NT and TN are (1, 0), (1, 1) and (0, 0)).
uint32_t wavefronts(const MatrixTile& tile, bool a_along_k, bool b_along_k, Stores stores = Stores::adjacent);

// Returns the same of a kernel as `hekla doctor --kernels` names it, "matmul/matrix.t128_f16", with its constants;
// nothing of other kernels.
std::optional<uint32_t> wavefronts(std::string_view kernel, std::span<const uint32_t> constants);

// C [m, n] = A [m, k] B [k, n] of elements of 2 bytes.
struct Product {
    uint64_t m = 0, n = 0, k = 0;
};
struct Device {
    uint64_t workgroups = 0;  // that are resident at the same time
    uint64_t cache_bytes = 0; // of the last level, which evicts what was not used for longest
};

// Returns the bytes of A and B that are read from memory, where tiles of 128 x 128 begin in the order of super-tiles of
// `height` rows of tiles: a column of tiles within it, then the next column. 1: by rows, as tile_of in tile.glsl.
uint64_t bytes_read(const Product& product, const Device& device, uint64_t height);

} // namespace drivers
