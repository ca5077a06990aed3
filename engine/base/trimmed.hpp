// Removes leading and trailing blanks.
#pragma once

#include <string_view>

namespace hekla {

// Returns a part of `text`. blanks: the characters to remove.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n\f\v") {
    const std::size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// Blanks between words and at the end of a line.
inline constexpr std::string_view kLineBlanks = " \t\r\n";

} // namespace hekla
