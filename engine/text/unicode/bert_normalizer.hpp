// BERT's split of a text into words (Devlin et al. 2019; google-research/bert, tokenization.py), as in the tokenizers
// library: control characters are removed, accents stripped, letters lowercased, Chinese characters and punctuation are
// separate words, and white space separates words.
#pragma once

#include "base/utf8.hpp"
#include "text/tokenizer.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

struct BertNormalization {
    bool clean_text = true;    // removes control characters, NUL and U+FFFD; converts all white space to spaces
    bool chinese = true;       // each Chinese character is a word
    bool strip_accents = true; // decomposed (NFD), without marks
    bool lower_case = true;
    bool punctuation = true; // each punctuation mark is a word
    bool operator==(const BertNormalization&) const = default;
};

// A buffer for bytes that are appended one by one, many millions of times, because std::string makes a call for each.
class WordBytes {
public:
    std::string_view text() const { return {data_.get(), size_}; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    void clear() { size_ = 0; }
    void push(char byte) {
        if (size_ == capacity_) grow(1);
        data_[size_++] = byte;
    }
    void append(const char* bytes, std::size_t count) {
        if (size_ + count > capacity_) grow(count);
        std::memcpy(data_.get() + size_, bytes, count);
        size_ += count;
    }
    void insert(std::size_t at, std::string_view bytes) {
        if (size_ + bytes.size() > capacity_) grow(bytes.size());
        std::memmove(data_.get() + at + bytes.size(), data_.get() + at, size_ - at);
        std::memcpy(data_.get() + at, bytes.data(), bytes.size());
        size_ += bytes.size();
    }

private:
    void grow(std::size_t more) {
        capacity_ = 2 * (capacity_ + more);
        auto larger = std::make_unique<char[]>(capacity_);
        std::memcpy(larger.get(), data_.get(), size_);
        data_ = std::move(larger);
    }
    std::unique_ptr<char[]> data_ = std::make_unique<char[]>(64);
    std::size_t size_ = 0;
    std::size_t capacity_ = 64;
};

// A normalizer. Immutable. Thread: any.
class BertNormalizer {
public:
    explicit BertNormalizer(const BertNormalization& options);
    const BertNormalization& options() const { return options_; }

    // A normalized word, and for every byte of it (if requested) the bytes of the text that its character came from.
    struct Word {
        WordBytes bytes;
        std::vector<ByteRange> origins;
        bool is_ascii = true;
    };

    // Calls `take(word)` for the words of text[begin, end), in order. `word` is reused for each.
    template<class Take>
    void split(std::string_view text, std::size_t begin, std::size_t end, bool origins, Word& word,
               const Take& take) const;

private:
    enum class Kind : uint8_t { inside, space, alone, removed, several };
    // The replacement of a character: up to 10 bytes of one kind, or several characters.
    struct Entry {
        char bytes[10] = {};
        uint8_t size = 0;
        Kind kind = Kind::inside;
    };
    static constexpr char32_t kTable = 0x3000; // entries of smaller characters are computed in advance

    Entry entry_of(char32_t value, std::vector<char32_t>& parts) const;
    Kind kind_of(char32_t normalized) const;
    // Adds a character that becomes several, or a mark that may have to be moved before another.
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
    const Entry* const table = table_.data();
    const char* const bytes = text.data();
    for (std::size_t at = begin; at < end;) {
        auto byte = static_cast<unsigned char>(bytes[at]);
        // Most of a text is ASCII letters.
        while (byte < 0x80 && table[byte].kind == Kind::inside) {
            word.bytes.push(table[byte].bytes[0]);
            if (origins) word.origins.push_back({at, at + 1});
            if (++at == end) break;
            byte = static_cast<unsigned char>(bytes[at]);
        }
        if (at == end) break;
        CodePoint character{byte, 1};
        Entry entry;
        if (byte < 0x80) {
            entry = table[byte];
        } else {
            character = first_code_point(text.substr(at));
            entry = character.value < kTable ? table[character.value] : entry_of(character.value, parts);
        }
        const ByteRange origin{at, at + character.size};
        at += character.size;
        if (entry.kind == Kind::inside) {
            if (entry.size == 1) {
                word.bytes.push(entry.bytes[0]);
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
