#include "text/jinja/tokens.hpp"

#include "base/utf8.hpp"
#include "text/text_position.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace hekla::text::jinja {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v";
constexpr std::array<std::string_view, 26> kMarks{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                                  "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                                  "]",  "{",  "}",  ",",  ".",  ":",  "|", ";"};

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
public:
    explicit Lexer(std::string_view text) {
        for (std::size_t i = 0; i < text.size(); ++i)
            if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') text_ += text[i];
        if (text_.ends_with('\n')) text_.pop_back(); // as Jinja does by default
    }

    Result<std::vector<Token>> run() {
        if (const std::size_t invalid = find_invalid_utf8(text_); invalid < text_.size()) {
            advance(invalid);
            return fail(fmt::format("not valid UTF-8 (byte 0x{:02X}); convert the template to UTF-8",
                                    static_cast<unsigned char>(text_[invalid])));
        }
        while (at_ < text_.size()) HK_TRY(step());
        add(Token::Kind::end, "");
        return std::move(tokens_);
    }

private:
    Status fail(const std::string& what) const { return invalid_argument(fmt::format("line {}: {}", line_, what)); }
    void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
    void advance(std::size_t to) {
        line_ += count_newlines(std::string_view(text_).substr(at_, to - at_));
        at_ = to;
    }
    bool has(std::string_view what) const { return std::string_view(text_).substr(at_).starts_with(what); }

    // Reads a text and the tag, output or comment after it.
    Status step() {
        std::size_t open = at_;
        for (;; ++open) {
            open = text_.find('{', open);
            if (open == std::string::npos || open + 1 == text_.size()) {
                open = text_.size();
                break;
            }
            const char next = text_[open + 1];
            if (next == '{' || next == '%' || next == '#') break;
        }
        std::string before = text_.substr(at_, open - at_);
        const char kind = open < text_.size() ? text_[open + 1] : '\0';
        const char sign = open + 2 < text_.size() ? text_[open + 2] : '\0';
        if (kind != '\0' && sign == '-') {
            const std::size_t last = before.find_last_not_of(kBlanks);
            before.resize(last == std::string::npos ? 0 : last + 1);
        } else if ((kind == '%' || kind == '#') && sign != '+') {
            const std::size_t line_end = before.rfind('\n');
            const std::size_t from = line_end == std::string::npos ? 0 : line_end + 1;
            if ((from > 0 || line_begins_) && before.find_first_not_of(kBlanks, from) == std::string::npos)
                before.resize(from);
        }
        if (!before.empty()) add(Token::Kind::text, std::move(before));
        advance(open);
        if (kind == '\0') return {};
        advance(at_ + 2 + (sign == '-' || (sign == '+' && kind != '{') ? 1 : 0));
        if (kind == '#') return skip_comment();
        return read_tag(kind == '%');
    }

    Status skip_comment() {
        const std::size_t end = text_.find("#}", at_);
        if (end == std::string::npos) return fail("a comment {# has no end #}");
        const bool strips = end > at_ && text_[end - 1] == '-';
        const bool keeps = end > at_ && text_[end - 1] == '+';
        advance(end + 2);
        after_tag(strips, !keeps);
        return {};
    }

    void after_tag(bool strips, bool trims) {
        if (strips) {
            const std::size_t next = text_.find_first_not_of(kBlanks, at_);
            advance(next == std::string::npos ? text_.size() : next);
        } else if (trims && has("\n")) {
            advance(at_ + 1);
        }
        line_begins_ = at_ > 0 && text_[at_ - 1] == '\n';
    }

    Status read_tag(bool is_tag) {
        add(is_tag ? Token::Kind::tag_begin : Token::Kind::output_begin, "");
        const std::string_view close = is_tag ? "%}" : "}}";
        std::string brackets;
        for (;;) {
            const std::size_t next = text_.find_first_not_of(kBlanks, at_);
            if (next == std::string::npos) return fail(fmt::format("a tag has no end {}", close));
            advance(next);
            if (brackets.empty()) {
                const bool strips = text_[at_] == '-' && std::string_view(text_).substr(at_ + 1).starts_with(close);
                const bool keeps =
                    is_tag && text_[at_] == '+' && std::string_view(text_).substr(at_ + 1).starts_with(close);
                if (strips || keeps || has(close)) {
                    add(is_tag ? Token::Kind::tag_end : Token::Kind::output_end, "");
                    advance(at_ + 2 + (strips || keeps ? 1 : 0));
                    after_tag(strips, is_tag && !keeps);
                    return {};
                }
            }
            HK_TRY(read_token(brackets));
        }
    }

    Status read_token(std::string& brackets) {
        const char c = text_[at_];
        if (is_letter(c)) {
            std::size_t end = at_;
            while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
            add(Token::Kind::name, text_.substr(at_, end - at_));
            advance(end);
            return {};
        }
        if (is_digit(c)) {
            std::size_t end = at_;
            while (end < text_.size() && is_digit(text_[end])) ++end;
            bool is_real = false;
            if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
                is_real = true;
                for (++end; end < text_.size() && is_digit(text_[end]);) ++end;
            }
            if (end - at_ > 18) return fail("a number has more than 18 digits");
            add(is_real ? Token::Kind::real : Token::Kind::integer, text_.substr(at_, end - at_));
            advance(end);
            return {};
        }
        if (c == '\'' || c == '"') return read_string(c);
        const auto mark = std::ranges::find_if(kMarks, [&](std::string_view m) { return has(m); });
        if (mark == kMarks.end()) return fail(fmt::format("the character '{}' is not part of an expression", c));
        if (*mark == "(" || *mark == "[" || *mark == "{") brackets += *mark;
        if (*mark == ")" || *mark == "]" || *mark == "}") {
            if (brackets.empty()) return fail(fmt::format("'{}' has no partner", *mark));
            brackets.pop_back();
        }
        add(Token::Kind::mark, std::string(*mark));
        advance(at_ + mark->size());
        return {};
    }

    Status read_string(char quote) {
        std::string value;
        std::size_t end = at_ + 1;
        for (; end < text_.size() && text_[end] != quote; ++end) {
            if (text_[end] != '\\' || end + 1 == text_.size()) {
                value += text_[end];
                continue;
            }
            const char c = text_[++end];
            switch (c) {
            case 'n': value += '\n'; break;
            case 't': value += '\t'; break;
            case 'r': value += '\r'; break;
            case '\\':
            case '\'':
            case '"': value += c; break;
            case '\n': break;
            case 'u':
            case 'x':
            case 'U':
            case 'N':
                return fail(fmt::format("the escape '\\{}' in a string is not supported; write the character", c));
            default: value += {'\\', c};
            }
        }
        if (end == text_.size()) return fail("a string has no end");
        add(Token::Kind::string, std::move(value));
        advance(end + 1);
        return {};
    }

    std::string text_;
    std::size_t at_ = 0, line_ = 1;
    bool line_begins_ = true;
    std::vector<Token> tokens_;
};

} // namespace

Result<std::vector<Token>> tokens_of(std::string_view text) { return Lexer(text).run(); }

} // namespace hekla::text::jinja
