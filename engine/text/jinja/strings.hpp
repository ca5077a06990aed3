// Python's string methods, by code points.
#pragma once

#include "text/jinja/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text::jinja {

enum class Side : uint8_t { left, right, both };
// characters: those to remove. Nothing: white space.
std::string stripped(std::string_view text, Side side, const std::optional<std::string>& characters);
// At most `most` separators count, or all of them if it is below 0. No separator: white space, and no empty parts. Ends
// after more than `limit` parts, as lines() does.
List split(std::string_view text, const std::optional<std::string>& separator, int64_t most, std::size_t limit);
List lines(std::string_view text, std::size_t limit);
// Only the first `most` occurrences, or all of them if it is below 0. `from` is not empty. Ends after `limit` bytes.
std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t most,
                     std::size_t limit);
// Returns where a part begins in a text, or npos, in time linear in both.
std::size_t found_at(std::string_view text, std::string_view part);
// Cases are Unicode's full ones: "SS" for "ß", a final sigma at the end of a word.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
// Returns the first letter of every word in title case, or of the text, and the other letters in lower case.
std::string title(std::string_view text);
std::string capitalized(std::string_view text);
// Returns what Jinja's filter `title` does, whose words begin only after white space, "-", "(", "{", "[" and "<".
std::string words_capitalized(std::string_view text);
// Returns the number of code points.
std::size_t character_count(std::string_view text);
// Returns the offset of the code point of this number, or of the end of the text.
std::size_t character_offset(std::string_view text, std::size_t number);
// Returns the first code point as a part of a text that is not empty, and removes it from there.
std::string_view take_character(std::string_view& text);

} // namespace hekla::text::jinja
