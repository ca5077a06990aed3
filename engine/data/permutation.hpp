// A keyed permutation of 0 .. size-1 that needs no memory: a Feistel network over the next power of four, iterated
// until the result is in range (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"), with Philox as the
// round function.
#pragma once

#include <array>
#include <cstdint>

namespace hekla::data {

class Permutation {
public:
    // size > 0.
    Permutation(uint64_t size, uint64_t key);
    uint64_t size() const { return size_; }
    // i < size(). Different i give different results, all below size().
    uint64_t operator()(uint64_t i) const;

private:
    uint64_t network(uint64_t x) const;
    uint64_t size_;
    std::array<uint32_t, 2> key_;
    unsigned half_bits_;
};

} // namespace hekla::data
