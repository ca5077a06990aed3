// Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): random numbers as a pure function
// of a key and a counter, so that no state is saved and rows can be drawn in any order. The shaders implement the same
// function.
#pragma once

#include <array>
#include <cstdint>

namespace hekla {

// Returns four uniform 32-bit words for a counter and a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A stream of numbers for one purpose, selected by key and stream number; the position counts up.
class RandomStream {
public:
    RandomStream(uint64_t key, uint64_t stream) : key_{lower(key), upper(key)}, stream_(stream) {}

    uint32_t next_u32();
    uint64_t next_u64() { return uint64_t{next_u32()} << 32 | next_u32(); }
    double next_unit();                  // [0, 1), 53 bits
    double next_normal();                // mean 0, deviation 1 (Box-Muller)
    uint64_t next_below(uint64_t bound); // [0, bound), unbiased; bound > 0

private:
    static uint32_t lower(uint64_t x) { return static_cast<uint32_t>(x); }
    static uint32_t upper(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
    std::array<uint32_t, 2> key_;
    uint64_t stream_;
    uint64_t block_ = 0;
    std::array<uint32_t, 4> words_{};
    int left_ = 0;
};

} // namespace hekla
