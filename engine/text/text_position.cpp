#include "text/text_position.hpp"

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

} // namespace hekla::text
