// Counts of BERT's words in a text, without special tokens, for training.
#pragma once

#include "text/added_tokens.hpp"
#include "text/text_position.hpp"
#include "text/unicode/bert_normalizer.hpp"

#include <unordered_map>

namespace hekla::text {

class WordCounts {
public:
    WordCounts(const BertNormalization& normalization, std::span<const SpecialToken> special)
        : normalizer_(normalization), special_(special) {}

    // Errors: not UTF-8; then nothing is counted.
    Status add(std::string_view text, const TextOrigin& origin) {
        HK_TRY(check_utf8(text, origin));
        BertNormalizer::Word room;
        const auto count = [&](const BertNormalizer::Word& word) { ++counts_[std::string(word.bytes.text())]; };
        return special_.walk(
            text, true,
            [&](std::size_t begin, std::size_t end) {
                normalizer_.split(text, begin, end, false, room, count);
                return Status();
            },
            [](const TokenMatcher::Match&) {});
    }

    const BertNormalization& normalization() const { return normalizer_.options(); }
    const std::unordered_map<std::string, uint64_t>& counts() const { return counts_; }
    void clear() { counts_.clear(); }

private:
    BertNormalizer normalizer_;
    AddedTokens special_;
    std::unordered_map<std::string, uint64_t> counts_;
};

} // namespace hekla::text
