#include "text/jinja/strings.hpp"

#include "base/utf8.hpp"
#include "text/unicode/characters.hpp"

#include <set>
#include <utf8proc.h>

namespace hekla::text::jinja {
namespace {

using Change = utf8proc_int32_t (*)(utf8proc_int32_t);

char32_t changed(char32_t value, Change change) {
    return static_cast<char32_t>(change(static_cast<utf8proc_int32_t>(value)));
}

// Returns the characters of a letter that has no upper case of its own but one of several characters ("ss" for "ß");
// empty for all others. They are those of its full case folding (Unicode's SpecialCasing.txt and CaseFolding.txt).
std::u32string parts_of_letter(char32_t value) {
    constexpr std::size_t kMost = 4;
    utf8proc_int32_t parts[kMost];
    const auto character = static_cast<utf8proc_int32_t>(value);
    if (value < 0x80 || utf8proc_category(character) == UTF8PROC_CATEGORY_LU) return {};
    int last = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(character, parts, kMost, UTF8PROC_CASEFOLD, &last);
    if (count < 2 || count > static_cast<utf8proc_ssize_t>(kMost)) return {};
    return {parts, parts + count};
}

// Returns a character as the first of a word: "Ss" for "ß".
std::string title_case(std::string_view character) {
    const char32_t value = first_code_point(character).value;
    const char32_t own = changed(value, utf8proc_totitle);
    const bool is_title = utf8proc_category(static_cast<utf8proc_int32_t>(own)) == UTF8PROC_CATEGORY_LT;
    const std::u32string parts = is_title ? std::u32string() : parts_of_letter(value);
    std::string result;
    append_code_point(result, parts.empty() ? own : changed(parts[0], utf8proc_totitle));
    for (std::size_t i = 1; i < parts.size(); ++i) append_code_point(result, parts[i]);
    return result;
}

bool is_letter(char32_t value) {
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

std::string_view without_ends(std::string_view text, Side side, const std::optional<std::string>& characters) {
    std::set<std::string> removed;
    if (characters)
        for (std::string_view rest = *characters; !rest.empty();) removed.emplace(take_character(rest));
    const auto is_removed = [&](std::string_view one) {
        return characters ? removed.contains(std::string(one)) : is_white_space(first_code_point(one).value);
    };
    while (side != Side::right && !text.empty()) {
        const std::string_view one = text.substr(0, first_code_point(text).size);
        if (!is_removed(one)) break;
        text.remove_prefix(one.size());
    }
    while (side != Side::left && !text.empty()) {
        const std::size_t last = last_code_point_start(text);
        if (!is_removed(text.substr(last))) break;
        text = text.substr(0, last);
    }
    return text;
}

} // namespace

// Knuth, Morris and Pratt 1977.
std::size_t found_at(std::string_view text, std::string_view part) {
    constexpr std::size_t kShort = 64;
    if (part.size() <= kShort) return text.find(part);
    std::vector<std::size_t> border(part.size(), 0); // the longest border of the first i + 1 bytes
    for (std::size_t i = 1, length = 0; i < part.size(); ++i) {
        while (length > 0 && part[i] != part[length]) length = border[length - 1];
        if (part[i] == part[length]) ++length;
        border[i] = length;
    }
    for (std::size_t i = 0, length = 0; i < text.size(); ++i) {
        while (length > 0 && text[i] != part[length]) length = border[length - 1];
        if (text[i] == part[length]) ++length;
        if (length == part.size()) return i + 1 - length;
    }
    return std::string_view::npos;
}

std::string stripped(std::string_view text, Side side, const std::optional<std::string>& characters) {
    return std::string(without_ends(text, side, characters));
}

List split(std::string_view text, const std::optional<std::string>& separator, int64_t most, std::size_t limit) {
    List parts;
    if (separator) {
        for (;;) {
            const std::size_t end = most != 0 ? found_at(text, *separator) : std::string_view::npos;
            parts.emplace_back(text.substr(0, end));
            if (end == std::string_view::npos || parts.size() > limit) return parts;
            text.remove_prefix(end + separator->size());
            --most;
        }
    }
    for (;;) {
        text = without_ends(text, Side::left, std::nullopt);
        if (text.empty() || parts.size() > limit) return parts;
        std::size_t end = 0;
        while (end < text.size() && !is_white_space(first_code_point(text.substr(end)).value))
            end += first_code_point(text.substr(end)).size;
        if (most == 0) end = text.size();
        parts.emplace_back(text.substr(0, end));
        text.remove_prefix(end);
        --most;
    }
}

List lines(std::string_view text, std::size_t limit) {
    List parts;
    while (!text.empty() && parts.size() <= limit) {
        const std::size_t end = text.find_first_of("\r\n");
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
    }
    return parts;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t most,
                     std::size_t limit) {
    std::string result;
    for (;;) {
        const std::size_t at = most != 0 ? found_at(text, from) : std::string_view::npos;
        result += text.substr(0, at);
        if (at == std::string_view::npos || result.size() > limit) return result;
        result += to;
        text.remove_prefix(at + from.size());
        --most;
    }
}

std::string upper(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint one = first_code_point(text.substr(at));
        at += one.size;
        const std::u32string parts = parts_of_letter(one.value);
        if (parts.empty()) append_code_point(result, changed(one.value, utf8proc_toupper));
        for (const char32_t part : parts) append_code_point(result, changed(part, utf8proc_toupper));
    }
    return result;
}

std::string lower(std::string_view text) {
    constexpr char32_t kSigma = U'\u03A3', kFinalSigma = U'\u03C2';
    std::string result;
    bool in_word = false;
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint one = first_code_point(text.substr(at));
        at += one.size;
        const bool ends = at == text.size() || !is_letter(first_code_point(text.substr(at)).value);
        append_code_point(result,
                          one.value == kSigma && in_word && ends ? kFinalSigma : changed(one.value, utf8proc_tolower));
        in_word = is_letter(one.value);
        if (one.value == U'\u0130') append_code_point(result, U'\u0307'); // the only letter whose lower case is two
    }
    return result;
}

std::string title(std::string_view text) {
    std::string result;
    bool begins = true;
    while (!text.empty()) {
        const std::string_view one = take_character(text);
        result += begins ? title_case(one) : lower(one);
        begins = !is_letter(first_code_point(one).value);
    }
    return result;
}

std::string words_capitalized(std::string_view text) {
    constexpr std::string_view kBreaks = "-({[<";
    std::string result;
    bool begins = true;
    while (!text.empty()) {
        const std::string_view one = take_character(text);
        result += begins ? upper(one) : lower(one);
        begins = kBreaks.find(one) != kBreaks.npos || is_white_space(first_code_point(one).value);
    }
    return result;
}

std::string capitalized(std::string_view text) {
    if (text.empty()) return {};
    const std::size_t first = first_code_point(text).size;
    return title_case(text.substr(0, first)) + lower(text.substr(first));
}

std::size_t character_count(std::string_view text) {
    std::size_t count = 0;
    for (; !text.empty(); ++count) take_character(text);
    return count;
}

std::size_t character_offset(std::string_view text, std::size_t number) {
    std::string_view rest = text;
    for (; number > 0 && !rest.empty(); --number) take_character(rest);
    return text.size() - rest.size();
}

std::string_view take_character(std::string_view& text) {
    const std::string_view one = text.substr(0, first_code_point(text).size);
    text.remove_prefix(one.size());
    return one;
}

} // namespace hekla::text::jinja
