// A part of a text by its bytes.
#pragma once

#include <cstdint>

namespace hekla::text {

// Bytes [begin, end) of the encoded text.
struct ByteRange {
    uint64_t begin = 0;
    uint64_t end = 0;
    bool operator==(const ByteRange&) const = default;
};

} // namespace hekla::text
