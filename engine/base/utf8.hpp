// UTF-8 (Unicode 15, table 3-7): strict for input, with replacement for output.
#pragma once

#include <cstddef>
#include <string>
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

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD"; // U+FFFD

struct CodePoint {
    char32_t value = 0;
    std::size_t size = 0; // bytes, 1 to 4
};

// Returns the first code point of a valid, non-empty text.
CodePoint first_code_point(std::string_view text);

// Returns the start of the last code point of a valid, non-empty text.
std::size_t last_code_point_start(std::string_view text);

void append_code_point(std::string& text, char32_t value);

// Converts bytes that arrive in pieces to valid UTF-8: incomplete sequences are held back until the next piece, and
// every maximal part of an invalid sequence becomes one U+FFFD, as the Unicode standard recommends.
class Utf8Stream {
public:
    std::string push(std::string_view bytes);
    std::string finish(); // held bytes become U+FFFD

private:
    std::string held_;
};

} // namespace hekla
