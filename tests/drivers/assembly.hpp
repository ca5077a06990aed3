// A driver's assembly of a kernel: its innermost loops, and how many instructions of each kind they have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::test {

struct LoopCounts {
    std::string first_block; // its label
    int64_t instructions = 0;
    int64_t multiply_adds = 0;       // of float32, scalar lanes: an instruction with two counts twice
    int64_t matrix = 0;              // instructions of matrix units
    int64_t cross_lane = 0;          // broadcasts, shuffles and permutations of lanes
    int64_t shared = 0;              // reads and writes of shared memory
    int64_t global_loads = 0;        // per lane, of any width
    int64_t narrow_global_loads = 0; // of 32 bits or less
    int64_t scratch = 0;             // spilled registers
};

// Returns the innermost loops of AMD assembly, as Mesa's RADV prints it (GCN to RDNA 4), of NVIDIA assembly as NVK
// prints it, and of Intel assembly as ANV prints it; empty if the text has none. Of Intel's, cross_lane,
// narrow_global_loads and scratch are 0.
std::vector<LoopCounts> innermost_loops(std::string_view assembly);

// Returns whether a loop, innermost or not, has instructions of matrix units. (NVK places blocks that follow a loop
// inside of it, so that loops in them look nested.)
bool has_matrix_in_loop(std::string_view assembly);

// Returns the reads and writes of shared memory in the whole kernel.
int64_t shared_instructions(std::string_view assembly);

} // namespace hekla::test
