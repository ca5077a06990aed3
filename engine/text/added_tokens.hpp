// Finds added tokens in a text as the tokenizers library does: the leftmost first, and at one position the longest;
// those that are not normalized first, in the text as it is, and then the normalized ones in what is left.
#pragma once

#include "text/tokenizer.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hekla::text {

// A set of texts that are found in one pass.
class TokenMatcher {
public:
    TokenMatcher() = default;
    explicit TokenMatcher(std::vector<AddedToken> tokens); // of equal ones the first counts
    // indices_ points into tokens_, which a move keeps and a copy would not.
    TokenMatcher(TokenMatcher&&) = default;
    TokenMatcher& operator=(TokenMatcher&&) = default;

    struct Match {
        std::size_t begin = 0; // includes the white space that lstrip removes
        std::size_t end = 0;
        int32_t id = -1;
    };
    bool is_empty() const { return tokens_.empty(); }

    // Splits a text: calls `between(begin, end)`, which returns a Status, for each part without a token, and
    // `found(match)` for each token. Skips tokens marked special unless `match_special`.
    template<class Between, class Found>
    Status walk(std::string_view text, bool match_special, const Between& between, const Found& found) const {
        std::size_t done = 0; // up to here the text was passed on
        Match match;
        for (std::size_t from = 0; find(text, from, done, match_special, match);) {
            if (done < match.begin) HK_TRY(between(done, match.begin));
            if (match.begin < match.end) found(match); // not within white space that belongs to the token before
            done = match.end;
        }
        return done < text.size() ? between(done, text.size()) : Status();
    }

    // Returns whether no token can span position `at` of `text`, whatever follows the text, or depends on the text on
    // the other side.
    bool can_cut(std::string_view text, std::size_t at) const;

private:
    // Finds the next token at or after `from`, and sets `from` to where to look for the one after it. `done`: up to
    // here white space belongs to the token before.
    bool find(std::string_view text, std::size_t& from, std::size_t done, bool match_special, Match& match) const;

    // Returns the next position at which a token may begin; the text's size if there is none.
    std::size_t next_begin(std::string_view text, std::size_t from) const;

    std::vector<AddedToken> tokens_;
    std::unordered_map<std::string_view, std::size_t> indices_; // by the texts in tokens_
    std::array<std::vector<std::size_t>, 256> lengths_;         // of the tokens by first byte, longest first
    std::array<bool, 256> is_begin_{};
    std::optional<char> only_begin_; // the byte that all of them begin with, if it is one
};

class AddedTokens {
public:
    AddedTokens() = default;
    // Returns the normal form of a normalized token's text.
    using Normalize = std::function<std::string(std::string_view text)>;
    explicit AddedTokens(std::span<const AddedToken> tokens, const Normalize& normalize = {});
    // For the special tokens of a vocabulary that does not exist yet: all matches have the id 0.
    explicit AddedTokens(std::span<const SpecialToken> tokens);

    const TokenMatcher& raw() const { return raw_; }               // of the text as it is
    const TokenMatcher& normalized() const { return normalized_; } // of the normalized text

    // Splits a text that has no normal form, as TokenMatcher::walk().
    template<class Between, class Found>
    Status walk(std::string_view text, bool match_special, const Between& between, const Found& found) const {
        if (normalized_.is_empty()) return raw_.walk(text, match_special, between, found);
        return raw_.walk(
            text, match_special,
            [&](std::size_t begin, std::size_t end) {
                return normalized_.walk(
                    text.substr(begin, end - begin), match_special,
                    [&](std::size_t from, std::size_t to) { return between(begin + from, begin + to); },
                    [&](TokenMatcher::Match match) {
                        match.begin += begin;
                        match.end += begin;
                        found(match);
                    });
            },
            found);
    }
    // Splits a text for encoding: appends each match to `ids`, and to `ranges`, if given.
    template<class Between>
    Status encode(std::string_view text, bool match_special, std::vector<int32_t>& ids, std::vector<ByteRange>* ranges,
                  const Between& between) const {
        return walk(text, match_special, between, [&](const TokenMatcher::Match& match) {
            ids.push_back(match.id);
            if (ranges != nullptr) ranges->push_back({match.begin, match.end});
        });
    }

    // Returns whether a text without normal form can be cut at `at`, whatever follows the text.
    bool can_cut(std::string_view text, std::size_t at) const {
        return raw_.can_cut(text, at) && normalized_.can_cut(text, at);
    }

private:
    TokenMatcher raw_, normalized_;
};

} // namespace hekla::text
