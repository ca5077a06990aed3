// GPT-2's expression (kGpt2Pattern) as code: the same words, many times faster. Letters and numbers are those of
// utf8proc; a regular expression library may have another version of Unicode.
#pragma once

#include "base/utf8.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace hekla::text {

enum class WordClass : uint8_t { letter, number, space, other };
WordClass word_class(char32_t character); // \p{L}, \p{N}, \s, or none of them

// Returns the class of the character at text[at] and its size.
struct ClassedCharacter {
    WordClass kind;
    std::size_t size;
};
inline ClassedCharacter classed(std::string_view text, std::size_t at) {
    static constexpr auto kAscii = [] {
        std::array<WordClass, 128> table{};
        for (unsigned c = 0; c < 128; ++c) {
            const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
            const bool space = c == ' ' || (c >= 9 && c <= 13);
            table[c] = letter                 ? WordClass::letter
                       : c >= '0' && c <= '9' ? WordClass::number
                       : space                ? WordClass::space
                                              : WordClass::other;
        }
        return table;
    }();
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) return {kAscii[byte], 1};
    const CodePoint character = first_code_point(text.substr(at));
    return {word_class(character.value), character.size};
}

// Returns the end of the word that begins at `begin` < text.size() of a valid UTF-8 text.
inline std::size_t gpt2_word_end(std::string_view text, std::size_t begin) {
    std::size_t at = begin;
    if (text[at] == '\'' && at + 1 < text.size()) {
        const char next = text[at + 1];
        if (next == 's' || next == 't' || next == 'm' || next == 'd') return at + 2;
        const std::string_view two = text.substr(at + 1, 2);
        if (two == "re" || two == "ve" || two == "ll") return at + 3;
    }
    ClassedCharacter first = classed(text, at);
    if (text[at] == ' ' && at + 1 < text.size()) { // one space belongs to the following word
        const ClassedCharacter next = classed(text, at + 1);
        if (next.kind != WordClass::space) {
            ++at;
            first = next;
        }
    }
    at += first.size;
    std::size_t last = at - first.size; // start of the last character of the run
    while (at < text.size()) {
        const ClassedCharacter next = classed(text, at);
        if (next.kind != first.kind) break;
        last = at;
        at += next.size;
    }
    // The last space before a word belongs to the word.
    if (first.kind == WordClass::space && at < text.size() && last > begin) return last;
    return at;
}

} // namespace hekla::text
