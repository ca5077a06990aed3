// The memory plan of a program: lifetimes of intermediate tensors over the order of dispatches, and their locations in
// the blocks of the activation arena, reused as soon as nothing reads them any more. Plain data, computed without a
// device.
#pragma once

#include "program/lowering/lowering.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hekla::program {

inline constexpr uint64_t kAlignment = 256; // bytes, of every resource's location

// A resource of the arena: it occupies its bytes of the block from its first dispatch to its last, inclusive.
struct Placement {
    ResourceId resource = 0;
    std::string name;
    uint64_t bytes = 0;
    uint32_t first = 0; // dispatch
    uint32_t last = 0;
    uint32_t block = 0;
    uint64_t offset = 0; // bytes, a multiple of kAlignment
};

struct MemoryPlan {
    std::vector<uint64_t> blocks;      // bytes of each block of the arena
    std::vector<Placement> placements; // by resource
    uint32_t dispatches = 0;
    uint64_t live_bytes = 0;     // the most bytes live at any dispatch: no plan can be smaller
    uint64_t unshared_bytes = 0; // size of the arena if nothing were reused
    // Outside the arena, in bytes.
    uint64_t parameters = 0;
    uint64_t gradients = 0;
    uint64_t moments = 0;
    uint64_t states = 0;
    uint64_t constants = 0;
    uint64_t inputs = 0;
    uint64_t outputs = 0;
    uint64_t arguments = 0;

    uint64_t arena() const; // sum of the blocks
    uint64_t total() const;
    std::string text() const; // a table for people, printed before step 0
    std::string json() const;
    std::string svg() const; // the arena over time, self-contained
};

// Computes lifetimes from the dispatches' accesses, then locations: longest-lived and largest first, each at the lowest
// offset that is free for its whole lifetime. out_of_memory if one tensor is larger than a block may be.
Result<MemoryPlan> plan_memory(const Lowering& lowering, uint64_t max_block_bytes);

} // namespace hekla::program
