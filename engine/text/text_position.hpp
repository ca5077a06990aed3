// The origin of a piece of text, so that an error can report file, line and byte of the whole text.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace hekla::text {

struct TextOrigin {
    std::string name = "text"; // a file's path, or another name for messages
    uint64_t byte = 0;         // offset of the chunk's first byte in the whole
    uint64_t line = 1;         // line of the chunk's first byte, counted from 1
};

uint64_t count_newlines(std::string_view text);

// Returns "NAME: line L, byte offset B" for position `offset` of the chunk `text` that begins at `origin`.
std::string describe_position(const TextOrigin& origin, std::string_view text, std::size_t offset);

// Returns an error with file, line, byte offset and byte, unless `text` is valid.
Status check_utf8(std::string_view text, const TextOrigin& origin);

} // namespace hekla::text
