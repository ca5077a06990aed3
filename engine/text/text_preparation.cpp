#include "text/text_preparation.hpp"

#include "base/utf8.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>

namespace hekla::text {

void TextPreparation::apply(std::string_view text, std::string& out, std::vector<ByteRange>& origins) const {
    struct Character {
        char32_t value;
        ByteRange origin;
    };
    std::vector<Character> characters;
    std::vector<char32_t> parts, small;
    for (std::size_t at = 0; at < text.size();) {
        CodePoint character = first_code_point(text.substr(at));
        ByteRange origin{at, at + character.size};
        if (quotes && (text.substr(at).starts_with("``") || text.substr(at).starts_with("''"))) {
            character.value = '"';
            origin.end = at + 2;
        }
        at = origin.end;
        parts.clear();
        if (decompose) {
            append_decomposed(character.value, true, parts);
        } else {
            parts.push_back(character.value);
        }
        for (const char32_t part : parts) characters.push_back({part, origin});
    }
    if (decompose) // canonical order of marks
        for (std::size_t begin = 0; begin < characters.size(); ++begin) {
            std::size_t end = begin;
            while (end < characters.size() && combining_class(characters[end].value) != 0) ++end;
            std::stable_sort(characters.begin() + static_cast<std::ptrdiff_t>(begin),
                             characters.begin() + static_cast<std::ptrdiff_t>(end),
                             [](const Character& a, const Character& b) {
                                 return combining_class(a.value) < combining_class(b.value);
                             });
            begin = end;
        }
    for (const Character& character : characters) {
        if (strip_accents && is_combining_mark(character.value)) continue;
        small.clear();
        if (lower_case) {
            append_lower_case(character.value, small);
        } else {
            small.push_back(character.value);
        }
        for (const char32_t value : small) append_code_point(out, value);
        origins.resize(out.size(), character.origin);
    }
}

} // namespace hekla::text
