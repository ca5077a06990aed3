#include "data/text_template.hpp"

#include "base/trimmed.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::data {

Result<TextTemplate> TextTemplate::parse(std::string_view text) {
    TextTemplate made;
    std::string literal;
    const auto end_literal = [&] {
        if (!literal.empty()) made.pieces_.push_back({false, std::exchange(literal, {})});
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c != '{' && c != '}') {
            literal += c;
            continue;
        }
        if (at + 1 < text.size() && text[at + 1] == c) {
            literal += c;
            ++at;
            continue;
        }
        const std::size_t end = text.find_first_of("{}", at + 1);
        if (c == '}' || end == std::string_view::npos || text[end] == '{')
            return invalid_argument(fmt::format("character {} is a '{}' without its partner; {{NAME}} is the column "
                                                "NAME, and {{{{ and }}}} are braces",
                                                at + 1, c));
        const std::string name(trimmed(text.substr(at + 1, end - at - 1), " "));
        if (name.empty())
            return invalid_argument(
                fmt::format("character {} begins a column without a name; expected {{NAME}}", at + 1));
        end_literal();
        made.pieces_.push_back({true, name});
        if (std::ranges::find(made.columns_, name) == made.columns_.end()) made.columns_.push_back(name);
        at = end;
    }
    end_literal();
    return made;
}

Result<TextTemplate> TextTemplate::parse_doubled(std::string_view text) {
    constexpr std::string_view kOpen = "{{", kClose = "}}";
    TextTemplate made;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t open = std::min(text.find(kOpen, at), text.size());
        if (open > at) made.pieces_.push_back({false, std::string(text.substr(at, open - at))});
        if (open == text.size()) break;
        const std::size_t close = text.find(kClose, open);
        if (close == std::string_view::npos)
            return invalid_argument(
                fmt::format("character {} begins a column that does not end; expected {{{{NAME}}}}", open + 1));
        const std::string name(trimmed(text.substr(open + 2, close - open - 2), " "));
        const bool plain = std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   static_cast<unsigned char>(c) >= 0x80 || std::string_view(" _-.").find(c) != std::string_view::npos;
        });
        if (name.empty() || !plain)
            return invalid_argument(
                fmt::format("'{}' at character {} is not the name of a column; expected {{{{NAME}}}} "
                            "(expressions are not evaluated: add a column to the data)",
                            text.substr(open, close + 2 - open), open + 1));
        made.pieces_.push_back({true, name});
        if (std::ranges::find(made.columns_, name) == made.columns_.end()) made.columns_.push_back(name);
        at = close + 2;
    }
    return made;
}

std::string TextTemplate::text(const std::function<std::string_view(std::string_view)>& of) const {
    std::string text;
    for (const Piece& piece : pieces_) text += piece.is_column ? of(piece.text) : std::string_view(piece.text);
    return text;
}

std::optional<std::string> TextTemplate::fill(const std::function<std::string_view(std::string_view)>& of) const {
    std::string text;
    for (const Piece& piece : pieces_) {
        const std::string_view value = piece.is_column ? of(piece.text) : std::string_view(piece.text);
        if (piece.is_column && trimmed(value, kLineBlanks).empty()) return std::nullopt;
        text += value;
    }
    return text;
}

} // namespace hekla::data
