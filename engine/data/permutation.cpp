#include "data/permutation.hpp"

#include "base/philox.hpp"

#include <algorithm>
#include <bit>

namespace hekla::data {
namespace {

constexpr uint32_t kRounds = 6;
constexpr unsigned kLeastHalfBits = 4; // a network over fewer bits reaches few of the permutations of a small size

} // namespace

Permutation::Permutation(uint64_t size, uint64_t key)
    : size_(size), key_{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
      half_bits_(std::max((static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2, kLeastHalfBits)) {}

uint64_t Permutation::network(uint64_t x) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = x >> half_bits_;
    uint64_t right = x & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
        const uint64_t mixed = philox({static_cast<uint32_t>(right), round, 0, 0}, key_)[0];
        const uint64_t next = left ^ (mixed & mask);
        left = right;
        right = next;
    }
    return left << half_bits_ | right;
}

uint64_t Permutation::operator()(uint64_t i) const {
    // The network permutes a larger range, so iterating from a point inside returns to a distinct point inside.
    do { i = network(i); } while (i >= size_);
    return i;
}

} // namespace hekla::data
