// BERT's way from a text to words (Devlin et al. 2019; google-research/bert, tokenization.py), as the tokenizers
// library does it: control characters go, accents are stripped, capitals become small, Chinese characters and
// punctuation stand alone, and white space is between words.
#pragma once

#include "text/tokenizer.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

struct BertNormalization {
    bool clean_text = true;    // control characters, NUL and U+FFFD go; every white space is a space
    bool chinese = true;       // each Chinese character is a word
    bool strip_accents = true; // decomposed (NFD), without marks
    bool lower_case = true;
    bool punctuation = true; // each punctuation mark is a word
    bool operator==(const BertNormalization&) const = default;
};

// Immutable; any thread.
class BertNormalizer {
public:
    explicit BertNormalizer(const BertNormalization& options);
    const BertNormalization& options() const { return options_; }

    // A normalized word, and for every byte of it (where wanted) the bytes of the text that its character came from.
    struct Word {
        std::string bytes;
        std::vector<ByteRange> origins;
        bool is_ascii = true;
    };

    // Calls `take(word)` for the words of text[begin, end), in order. `word` is room that is used again.
    template<class Take>
    void split(std::string_view text, std::size_t begin, std::size_t end, bool origins, Word& word,
               const Take& take) const;

private:
    enum class Kind : uint8_t { inside, space, alone, removed, several };
    // What a character becomes: up to 10 bytes of one kind, or several characters.
    struct Entry {
        char bytes[10] = {};
        uint8_t size = 0;
        Kind kind = Kind::inside;
    };
    static constexpr char32_t kTable = 0x3000; // the entries of smaller characters are made beforehand

    Entry entry_of(char32_t value, std::vector<char32_t>& parts) const;
    Kind kind_of(char32_t normalized) const;
    // A character that becomes several, or a mark that may have to move before another.
    static void put(Word& word, char32_t value, const ByteRange* origin);

    BertNormalization options_;
    std::vector<Entry> table_;
};

template<class Take>
void BertNormalizer::split(std::string_view text, std::size_t begin, std::size_t end, bool origins, Word& word,
                           const Take& take) const {
    const auto flush = [&] {
        if (word.bytes.empty()) return;
        take(word);
        word.bytes.clear();
        word.origins.clear();
        word.is_ascii = true;
    };
    word.bytes.clear();
    word.origins.clear();
    word.is_ascii = true;
    std::vector<char32_t> parts;
    for (std::size_t at = begin; at < end;) {
        const auto byte = static_cast<unsigned char>(text[at]);
        CodePoint character{byte, 1};
        Entry entry;
        if (byte < 0x80) {
            entry = table_[byte];
        } else {
            character = first_code_point(text.substr(at));
            entry = character.value < kTable ? table_[character.value] : entry_of(character.value, parts);
        }
        const ByteRange origin{at, at + character.size};
        at += character.size;
        if (entry.kind == Kind::inside) {
            if (entry.size == 1) {
                word.bytes.push_back(entry.bytes[0]);
            } else {
                word.bytes.append(entry.bytes, entry.size);
                word.is_ascii = false;
            }
            if (origins) word.origins.resize(word.bytes.size(), origin);
        } else if (entry.kind == Kind::space) {
            flush();
        } else if (entry.kind == Kind::alone) {
            flush();
            word.bytes.append(entry.bytes, entry.size);
            word.is_ascii = entry.size == 1;
            if (origins) word.origins.resize(word.bytes.size(), origin);
            flush();
        } else if (entry.kind == Kind::several) {
            parts.clear();
            entry_of(character.value, parts);
            for (const char32_t part : parts) {
                const Kind kind = kind_of(part);
                if (kind != Kind::inside) flush();
                if (kind == Kind::space) continue;
                put(word, part, origins ? &origin : nullptr);
                if (kind == Kind::alone) flush();
            }
        }
    }
    flush();
}

} // namespace hekla::text
