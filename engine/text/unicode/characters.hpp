// Unicode properties as in the published tokenizers, which use the character data of their time (Unicode 8 for
// categories, 12 for decompositions). Later characters have no category there, and none here either.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

bool is_control_character(char32_t value); // categories Cc, Cf, Co, except tab, newline and carriage return
bool is_mark(char32_t value);              // category Mn: removed from letters by BERT
bool is_combining_mark(char32_t value);    // categories Mn, Mc, Me: removed by tokenizers' StripAccents
bool is_bert_punctuation(char32_t value);  // categories P*, and all ASCII except letters, digits, space, control
bool is_chinese_character(char32_t value); // the blocks around which BERT inserts spaces
bool is_word_character(char32_t value);    // \w of Unicode: letters, marks, decimal digits, connectors, joiners
uint8_t combining_class(char32_t value);   // of the canonical ordering; 0 for a starter

// Appends the canonical (NFD) or compatibility (NFKD) decomposition of one character.
void append_decomposed(char32_t value, bool compatibility, std::vector<char32_t>& out);
// Returns the character that two characters compose to (NFC); 0 if they do not.
char32_t composed_pair(char32_t first, char32_t second);
// Returns whether a normal form changes neither the character nor what is before it.
bool is_inert(char32_t value, bool compatibility, bool composition);
// Sorts the marks of a decomposed text into canonical order.
void order_marks(std::span<char32_t> text);
// Appends the lower case of one character (one or two characters).
void append_lower_case(char32_t value, std::vector<char32_t>& out);

// Returns Unicode's White_Space property, which is the meaning of `\s` in the GPT-2 pattern (PCRE2's own adds U+180E).
bool is_white_space(char32_t value);

} // namespace hekla::text
