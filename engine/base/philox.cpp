#include "base/philox.hpp"

#include <cmath>
#include <numbers>

namespace hekla {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t{0xD2511F53u} * c[0];
        const uint64_t b = uint64_t{0xCD9E8D57u} * c[2];
        c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
             static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    return c;
}

uint32_t RandomStream::next_u32() {
    if (left_ == 0) {
        words_ = philox({lower(block_), upper(block_), lower(stream_), upper(stream_)}, key_);
        ++block_;
        left_ = 4;
    }
    return words_[static_cast<std::size_t>(4 - left_--)];
}

double RandomStream::next_unit() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

double RandomStream::next_normal() {
    const double u = 1.0 - next_unit(); // (0, 1]: the logarithm stays finite
    const double v = next_unit();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

uint64_t RandomStream::next_below(uint64_t bound) {
    const uint64_t reject = (0 - bound) % bound; // 2^64 mod bound: values below it would be drawn once too often
    for (;;) {
        const uint64_t x = next_u64();
        if (x >= reject) return x % bound;
    }
}

} // namespace hekla
