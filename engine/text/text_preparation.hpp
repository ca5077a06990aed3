// Prepares a text for its SentencePiece model (ALBERT, XLNet): quotes, accents, lower case. Every byte of the result
// has an origin in the text.
#pragma once

#include "text/tokenizer.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

struct TextPreparation {
    bool quotes = false;        // `` and '' become "
    bool decompose = false;     // NFKD
    bool strip_accents = false; // removes combining marks
    bool lower_case = false;
    bool operator==(const TextPreparation&) const = default;
    bool is_none() const { return *this == TextPreparation(); }

    // Appends the prepared text to `out`, and to `origins` the bytes of `text` that each of its bytes came from.
    void apply(std::string_view text, std::string& out, std::vector<ByteRange>& origins) const;
};

} // namespace hekla::text
