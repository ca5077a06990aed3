#include "base/hash.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace hekla {

Hash128 hash128(std::string_view bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return {hash.high64, hash.low64};
}

Hash128 hash128(std::span<const std::byte> bytes) {
    return hash128(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Hash128 hash128(std::span<const std::span<const std::byte>> pieces) {
    if (pieces.size() == 1) return hash128(pieces.front());
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    for (const std::span<const std::byte> piece : pieces) XXH3_128bits_update(&state, piece.data(), piece.size());
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return {hash.high64, hash.low64};
}

uint64_t hash64(std::string_view bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string to_hex(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

} // namespace hekla
