#include "text/jinja/strings.hpp"

#include "text/unicode/utf8.hpp"

#include <utf8proc.h>

namespace hekla::text::jinja {
namespace {

std::string mapped(std::string_view text, utf8proc_int32_t (*change)(utf8proc_int32_t)) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint one = first_code_point(text.substr(at));
        append_code_point(result, static_cast<char32_t>(change(static_cast<utf8proc_int32_t>(one.value))));
        at += one.size;
    }
    return result;
}

bool is_letter(char32_t value) {
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool has(std::string_view characters, std::string_view one) {
    for (const std::string& c : characters_of(characters))
        if (c == one) return true;
    return false;
}

} // namespace

std::string stripped(std::string_view text, Side side, const std::optional<std::string>& characters) {
    const auto is_removed = [&](std::string_view one) {
        return characters ? has(*characters, one) : is_white_space(first_code_point(one).value);
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
    return std::string(text);
}

List split(std::string_view text, const std::optional<std::string>& separator, int64_t most) {
    List parts;
    if (separator) {
        for (;;) {
            const std::size_t end = most != 0 ? text.find(*separator) : std::string_view::npos;
            parts.emplace_back(text.substr(0, end));
            if (end == std::string_view::npos) return parts;
            text.remove_prefix(end + separator->size());
            --most;
        }
    }
    for (;;) {
        const std::string rest = stripped(text, Side::left, std::nullopt);
        text.remove_prefix(text.size() - rest.size());
        if (text.empty()) return parts;
        std::size_t end = 0;
        while (end < text.size() && !is_white_space(first_code_point(text.substr(end)).value))
            end += first_code_point(text.substr(end)).size;
        if (most == 0) end = text.size();
        parts.emplace_back(text.substr(0, end));
        text.remove_prefix(end);
        --most;
    }
}

List lines(std::string_view text) {
    List parts;
    while (!text.empty()) {
        const std::size_t end = text.find_first_of("\r\n");
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
    }
    return parts;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t most) {
    std::string result;
    for (;;) {
        const std::size_t at = most != 0 ? text.find(from) : std::string_view::npos;
        result += text.substr(0, at);
        if (at == std::string_view::npos) return result;
        result += to;
        text.remove_prefix(at + from.size());
        --most;
    }
}

std::string upper(std::string_view text) { return mapped(text, utf8proc_toupper); }
std::string lower(std::string_view text) { return mapped(text, utf8proc_tolower); }

std::string title(std::string_view text) {
    std::string result;
    bool begins = true;
    for (const std::string& one : characters_of(text)) {
        result += begins ? upper(one) : lower(one);
        begins = !is_letter(first_code_point(one).value);
    }
    return result;
}

std::string capitalized(std::string_view text) {
    if (text.empty()) return {};
    const std::size_t first = first_code_point(text).size;
    return upper(text.substr(0, first)) + lower(text.substr(first));
}

std::vector<std::string> characters_of(std::string_view text) {
    std::vector<std::string> all;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = first_code_point(text.substr(at)).size;
        all.emplace_back(text.substr(at, size));
        at += size;
    }
    return all;
}

} // namespace hekla::text::jinja
