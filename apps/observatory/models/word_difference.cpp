#include "models/word_difference.hpp"

#include <algorithm>
#include <cstdint>

namespace observatory {
namespace {

constexpr std::size_t kMostCompared = 600; // words; beyond it, words at the same position are compared

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::vector<std::string_view> without_spaces(std::string_view text) {
    std::vector<std::string_view> found;
    for (const Word& word : words_of(text))
        if (!is_space(word.text.front()) && word.text != "\n") found.push_back(word.text);
    return found;
}

} // namespace

std::vector<Word> words_of(std::string_view text) {
    std::vector<Word> found;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = at + 1;
        if (text[at] != '\n')
            while (end < text.size() && text[end] != '\n' && is_space(text[end]) == is_space(text[at])) ++end;
        found.push_back({text.substr(at, end - at)});
        at = end;
    }
    return found;
}

std::vector<Word> different_words(std::string_view base, std::string_view text) {
    std::vector<Word> result = words_of(text);
    const std::vector<std::string_view> a = without_spaces(base), b = without_spaces(text);
    std::vector<bool> differs(b.size(), true);
    if (a.size() > kMostCompared || b.size() > kMostCompared) {
        for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) differs[i] = a[i] != b[i];
    } else {
        // Lengths of the longest common subsequences of the rests from i and j on.
        const std::size_t columns = b.size() + 1;
        std::vector<uint16_t> lengths((a.size() + 1) * columns, 0);
        for (std::size_t i = a.size(); i-- > 0;)
            for (std::size_t j = b.size(); j-- > 0;)
                lengths[i * columns + j] = a[i] == b[j]
                                               ? static_cast<uint16_t>(lengths[(i + 1) * columns + j + 1] + 1)
                                               : std::max(lengths[(i + 1) * columns + j], lengths[i * columns + j + 1]);
        for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
            if (a[i] == b[j]) {
                differs[j++] = false;
                ++i;
            } else if (lengths[(i + 1) * columns + j] >= lengths[i * columns + j + 1]) {
                ++i;
            } else {
                ++j;
            }
        }
    }
    std::size_t number = 0;
    for (Word& word : result)
        if (!is_space(word.text.front()) && word.text != "\n") word.differs = differs[number++];
    return result;
}

} // namespace observatory
