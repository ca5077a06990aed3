// Unicode properties as the published tokenizers have them. They were made with the character data of their time
// (Unicode 8 for categories, 12 for decompositions), in which later characters have no category; they have none here
// either.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

bool is_control_character(char32_t value); // categories Cc, Cf, Co, but for tab, newline and carriage return
bool is_mark(char32_t value);              // category Mn: what BERT strips from letters
bool is_combining_mark(char32_t value);    // categories Mn, Mc, Me: what tokenizers' StripAccents removes
bool is_bert_punctuation(char32_t value);  // categories P*, and all of ASCII that is no letter, digit, space, control
bool is_chinese_character(char32_t value); // the blocks that BERT puts spaces around
uint8_t combining_class(char32_t value);   // of the canonical ordering; 0 for a starter

// Appends the canonical (NFD) or compatibility (NFKD) decomposition of one character.
void append_decomposed(char32_t value, bool compatibility, std::vector<char32_t>& out);
// A text in canonical composition (NFC).
std::string composed(std::string_view text);
// Puts the marks of a decomposed text into canonical order.
void order_marks(std::span<char32_t> text);
// Appends the lower case of one character (one or two).
void append_lower_case(char32_t value, std::vector<char32_t>& out);

} // namespace hekla::text
