// Which words of a text differ from another one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace observatory {

struct Word {
    std::string_view text; // a word, a run of spaces, or a line end: a part of the text that was given
    bool differs = false;
};

// Splits a text into words and the spaces between them. A word differs if it is not in a longest common subsequence of
// the words of both texts. The result points into `text`.
std::vector<Word> different_words(std::string_view base, std::string_view text);
std::vector<Word> words_of(std::string_view text);

} // namespace observatory
