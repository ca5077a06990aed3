#include "program/arena.hpp"

#include "gpu/submit.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hekla::program {

uint64_t Arena::bytes() const {
    uint64_t sum = 0;
    for (const gpu::Buffer& block : blocks_) sum += block.bytes();
    return sum;
}

Status Arena::reserve(std::span<const uint64_t> sizes, gpu::Memory& memory, gpu::Queue& queue) {
    bool grows = sizes.size() > blocks_.size();
    for (std::size_t b = 0; b < sizes.size() && !grows; ++b) grows = sizes[b] > blocks_[b].bytes();
    if (!grows) return {};
    HK_TRY(queue.wait_all());
    blocks_.resize(std::max(blocks_.size(), sizes.size()));
    for (std::size_t b = 0; b < sizes.size(); ++b) {
        gpu::Buffer& block = blocks_[b];
        if (block && block.bytes() >= sizes[b]) continue;
        // Free the old one first, because both together might not fit.
        block = gpu::Buffer();
        ++generation_;
        HK_ASSIGN(block, memory.create_buffer(sizes[b], gpu::Residence::device, fmt::format("activations {}", b)));
    }
    ++generation_;
    return {};
}

} // namespace hekla::program
