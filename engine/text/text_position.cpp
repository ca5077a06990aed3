#include "text/text_position.hpp"

#include "base/utf8.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

uint64_t count_newlines(std::string_view text) {
    return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string describe_position(const TextOrigin& origin, std::string_view text, std::size_t offset) {
    return fmt::format("{}: line {}, byte offset {}", origin.name, origin.line + count_newlines(text.substr(0, offset)),
                       origin.byte + offset);
}

Status check_utf8(std::string_view text, const TextOrigin& origin) {
    const std::size_t at = find_invalid_utf8(text);
    if (at == text.size()) return {};
    return invalid_argument(
        fmt::format("{}: not valid UTF-8 (byte 0x{:02X}); convert the text to UTF-8, or leave it out",
                    describe_position(origin, text, at), static_cast<unsigned char>(text[at])));
}

} // namespace hekla::text
