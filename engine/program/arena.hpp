// The memory of intermediate tensors.
#pragma once

#include "gpu/memory.hpp"
#include "gpu/submit.hpp"

#include <cstdint>
#include <vector>

namespace hekla::program {

// The activation arena: blocks shared by all programs of a runtime, as large as the largest program needs. Growing it
// moves it; programs notice and rewrite their argument records before their next submit.
class Arena {
public:
    const std::vector<gpu::Buffer>& blocks() const { return blocks_; }
    uint64_t generation() const { return generation_; } // increases whenever a block moves
    uint64_t bytes() const;
    // Makes block i at least sizes[i] bytes. If a block has to move, waits for `queue` first.
    Status reserve(std::span<const uint64_t> sizes, gpu::Memory& memory, gpu::Queue& queue);

private:
    std::vector<gpu::Buffer> blocks_;
    uint64_t generation_ = 0;
};

} // namespace hekla::program
