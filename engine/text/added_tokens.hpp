// Finds added tokens in a text: leftmost first, and the longest of those that begin at one place.
#pragma once

#include "text/vocabulary.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace hekla::text {

class AddedTokens {
public:
    AddedTokens() = default;
    explicit AddedTokens(std::span<const AddedToken> tokens);

    struct Match {
        std::size_t begin = 0; // with the white space that lstrip takes along; text.size() if there is no match
        std::size_t end = 0;
        int32_t id = -1;
    };
    // The first match at or after `from`. Tokens marked special are passed over unless `match_special`.
    Match find(std::string_view text, std::size_t from, bool match_special) const;

    // Whether no added token can reach over position `at` of `text`, even if the text went on.
    bool can_cut(std::string_view text, std::size_t at) const;

private:
    std::vector<AddedToken> tokens_;                   // longest first
    std::array<std::vector<std::size_t>, 256> begins_; // first byte -> indices into tokens_
    std::array<bool, 256> is_begin_{};
    std::size_t longest_ = 0;
};

} // namespace hekla::text
