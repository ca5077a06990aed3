// SentencePiece's compiled normalization: at every position of a text the longest known sequence is replaced.
#pragma once

#include "text/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

class Charsmap {
public:
    // Returns whether no step of the compiled form leads outside it, so that lookups need no bounds checks. Empty is
    // sound.
    static bool is_sound(std::string_view compiled);

    Charsmap() = default;
    explicit Charsmap(std::string_view sound); // empty: nothing is replaced

    // Appends the normalized text to `out`, and the bytes of `text` that each of its bytes came from to `origins`.
    void apply(std::string_view text, std::string& out, std::vector<ByteRange>& origins) const;

private:
    std::vector<uint32_t> units_; // a double array, as Darts-clone's
    std::string replacements_;    // each ended by NUL
};

} // namespace hekla::text
