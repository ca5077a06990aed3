// UTF-8 (Unicode 15, table 3-7): strict for input, with replacement for output.
#pragma once

#include "base/status.hpp"
#include "base/utf8.hpp"
#include "text/text_position.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace hekla::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD"; // U+FFFD

// Returns an error with file, line, byte offset and byte, unless `text` is valid.
Status check_utf8(std::string_view text, const TextOrigin& origin);

struct CodePoint {
    char32_t value = 0;
    std::size_t size = 0; // bytes, 1 to 4
};

// Returns the first code point of a valid, non-empty text.
CodePoint first_code_point(std::string_view text);

// Returns the start of the last code point of a valid, non-empty text.
std::size_t last_code_point_start(std::string_view text);

void append_code_point(std::string& text, char32_t value);

// Returns Unicode's White_Space property, which is the meaning of `\s` in the GPT-2 pattern (PCRE2's own adds U+180E).
bool is_white_space(char32_t value);

// Converts bytes that arrive in pieces to valid UTF-8: incomplete sequences are held back until the next piece, and
// every maximal part of an invalid sequence becomes one U+FFFD, as the Unicode standard recommends.
class Utf8Stream {
public:
    std::string push(std::string_view bytes);
    std::string finish(); // held bytes become U+FFFD

private:
    std::string held_;
};

} // namespace hekla::text
