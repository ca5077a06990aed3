// Hashes of content: XXH3. They detect accidents (torn writes, changed files), not attacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hekla {

struct Hash128 {
    uint64_t high = 0;
    uint64_t low = 0;
    bool operator==(const Hash128&) const = default;
};

Hash128 hash128(std::string_view bytes);
Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::span<const std::span<const std::byte>> pieces); // of all bytes in order
uint64_t hash64(std::string_view bytes, uint64_t seed = 0);
std::string to_hex(const Hash128& hash); // 32 lower-case digits, high first

} // namespace hekla
