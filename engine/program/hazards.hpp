// Places barriers between dispatches, from the bytes that each reads and writes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::program {

// Bytes [begin, end) of the device's address space.
struct ByteRange {
    uint64_t begin = 0;
    uint64_t end = 0;
    bool write = false;
};

// Returns for each dispatch whether a full barrier precedes it. A barrier is placed as late as possible, just before
// the first dispatch that conflicts (read after write, write after read, write after write) with one since the last
// barrier; no smaller number of barriers orders every pair.
std::vector<bool> place_barriers(std::span<const std::vector<ByteRange>> dispatches);

} // namespace hekla::program
