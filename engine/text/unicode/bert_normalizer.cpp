#include "text/unicode/bert_normalizer.hpp"

#include "text/unicode/characters.hpp"

#include <algorithm>

namespace hekla::text {

BertNormalizer::BertNormalizer(const BertNormalization& options) : options_(options), table_(kTable) {
    std::vector<char32_t> parts;
    for (char32_t value = 0; value < kTable; ++value) table_[value] = entry_of(value, parts);
}

BertNormalizer::Kind BertNormalizer::kind_of(char32_t normalized) const {
    if (is_white_space(normalized)) return Kind::space;
    return options_.punctuation && is_bert_punctuation(normalized) ? Kind::alone : Kind::inside;
}

// The order is the reference's: clean, spaces around Chinese, strip, lower case, words.
BertNormalizer::Entry BertNormalizer::entry_of(char32_t value, std::vector<char32_t>& parts) const {
    Entry entry;
    parts.clear();
    if (options_.clean_text && (value == 0 || value == 0xFFFD || is_control_character(value))) {
        entry.kind = Kind::removed;
        return entry;
    }
    std::vector<char32_t> decomposed;
    if (options_.strip_accents) {
        append_decomposed(value, false, decomposed);
        std::erase_if(decomposed, is_mark);
    } else {
        decomposed.push_back(value);
    }
    for (const char32_t part : decomposed) {
        if (options_.lower_case) {
            append_lower_case(part, parts);
        } else {
            parts.push_back(part);
        }
    }
    const bool chinese = options_.chinese && is_chinese_character(value);
    const bool simple = std::ranges::all_of(parts, [&](char32_t part) {
        return !(options_.strip_accents && combining_class(part) != 0) &&
               (parts.size() == 1 || kind_of(part) == Kind::inside);
    });
    std::string bytes;
    for (const char32_t part : parts) append_code_point(bytes, part);
    if (parts.empty()) {
        entry.kind = Kind::removed;
    } else if (!simple || bytes.size() > std::size(entry.bytes)) {
        entry.kind = Kind::several;
    } else {
        entry.kind = parts.size() > 1 ? Kind::inside : chinese ? Kind::alone : kind_of(parts[0]);
        entry.size = static_cast<uint8_t>(bytes.size());
        std::ranges::copy(bytes, entry.bytes);
    }
    return entry;
}

void BertNormalizer::put(Word& word, char32_t value, const ByteRange* origin) {
    std::string bytes;
    append_code_point(bytes, value);
    std::size_t at = word.bytes.size();
    // Canonical order: after the marks of a smaller or equal class, before those of a larger one. A word longer than
    // any real one keeps its order, because moving a mark across it would take quadratic time.
    constexpr std::size_t kLongest = 4096;
    if (const uint8_t rank = combining_class(value); rank != 0 && at < kLongest) {
        while (at > 0) {
            const std::size_t before = last_code_point_start(word.bytes.text().substr(0, at));
            if (combining_class(first_code_point(word.bytes.text().substr(before)).value) <= rank) break;
            at = before;
        }
    }
    word.bytes.insert(at, bytes);
    word.is_ascii = word.is_ascii && value < 0x80;
    if (origin != nullptr)
        word.origins.insert(word.origins.begin() + static_cast<std::ptrdiff_t>(at), bytes.size(), *origin);
}

} // namespace hekla::text
