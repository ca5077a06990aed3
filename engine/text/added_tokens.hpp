// Finds added tokens in a text: the leftmost first, and at one position the longest.
#pragma once

#include "text/tokenizer.hpp"

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
    // For the special tokens of a vocabulary that does not exist yet: all matches have the id 0.
    explicit AddedTokens(std::span<const SpecialToken> tokens);

    struct Match {
        std::size_t begin = 0; // includes the white space that lstrip removes; text.size() if there is no match
        std::size_t end = 0;
        int32_t id = -1;
    };
    // Returns the first match at or after `from`. Skips tokens marked special unless `match_special`.
    Match find(std::string_view text, std::size_t from, bool match_special) const;

    // Splits a text: calls `between(begin, end)`, which returns a Status, for each part without a token (possibly
    // empty), and `found(match)` for each token.
    template<class Between, class Found>
    Status walk(std::string_view text, bool match_special, const Between& between, const Found& found) const {
        for (std::size_t at = 0; at < text.size();) {
            const Match match = find(text, at, match_special);
            HK_TRY(between(at, match.begin));
            if (match.id >= 0) found(match);
            at = match.end;
        }
        return {};
    }
    // Splits a text for encoding: appends each match to `ids`, and to `ranges`, if given.
    template<class Between>
    Status encode(std::string_view text, bool match_special, std::vector<int32_t>& ids, std::vector<ByteRange>* ranges,
                  const Between& between) const {
        return walk(text, match_special, between, [&](const Match& match) {
            ids.push_back(match.id);
            if (ranges != nullptr) ranges->push_back({match.begin, match.end});
        });
    }

    // Returns whether no added token can span position `at` of `text`, whatever follows the text.
    bool can_cut(std::string_view text, std::size_t at) const;

private:
    std::vector<AddedToken> tokens_;                   // longest first
    std::array<std::vector<std::size_t>, 256> begins_; // first byte -> indices into tokens_
    std::array<bool, 256> is_begin_{};
    std::size_t longest_ = 0;
};

} // namespace hekla::text
