// SentencePiece's compiled normalization, which replaces the longest known sequence at every position of a text.
#pragma once

#include "text/byte_range.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

class Charsmap {
public:
    // Returns whether no step of the compiled form leads outside it, so that lookups need no bounds checks. Empty is
    // valid.
    static bool is_sound(std::string_view compiled);

    Charsmap() = default;
    explicit Charsmap(std::string_view sound); // empty: nothing is replaced

    // Appends the normalized text to `out`, and the bytes of `text` that each of its bytes came from to `origins`.
    void apply(std::string_view text, std::string& out, std::vector<ByteRange>& origins) const;
    // Returns the replacement of the shortest known sequence that the text begins with.
    std::optional<std::string_view> shortest(std::string_view text) const;

private:
    std::vector<uint32_t> units_; // a double array, as in Darts-clone
    std::string replacements_;    // each ended by NUL
};

} // namespace hekla::text
