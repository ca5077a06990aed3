// Whether bytes are UTF-8 (Unicode 15, table 3-7).
#pragma once

#include <cstddef>
#include <string_view>

namespace hekla {

// The bytes of one code point, or the longest prefix of a valid sequence.
struct Utf8Sequence {
    enum class State { valid, incomplete, invalid } state;
    std::size_t size;
};

// Returns the first sequence of a text that is not empty.
Utf8Sequence first_utf8_sequence(std::string_view text);

// Returns the offset of the first byte that is not part of a valid sequence; text.size() if all of it is valid.
std::size_t find_invalid_utf8(std::string_view text);

} // namespace hekla
