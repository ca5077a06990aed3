// What a tokenizer.json splits or replaces by: a text, a regular expression, or characters of a kind.
#pragma once

#include "base/status.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

// A regular expression of Oniguruma. Immutable. Thread: any.
class Regex {
public:
    // Errors: it is not a regular expression; it cannot be translated.
    static Result<Regex> compile(const std::string& expression);
    const std::string& expression() const { return expression_; }

    // Calls `found(begin, end)`, which returns a Status, for the matches in a valid UTF-8 text, from left to right.
    // They may be empty. Error: it needs more steps than PCRE2 allows.
    Status find(std::string_view text, const std::function<Status(std::size_t begin, std::size_t end)>& found) const;

private:
    explicit Regex(std::string expression) : expression_(std::move(expression)) {}
    std::string expression_;
    std::shared_ptr<const void> code_; // pcre2_code, immutable once compiled
};

// A part of a text: a match, or what is between two.
struct PatternPart {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool is_match = false;
};

class Pattern {
public:
    using Predicate = bool (*)(char32_t character);
    Pattern() = default;
    static Pattern of_text(std::string text); // not empty
    static Pattern of_regex(Regex regex);
    static Pattern of_characters(Predicate predicate);

    const std::string& text() const { return text_; }   // empty unless it is a text
    const Regex* regex() const { return regex_.get(); } // null unless it is an expression
    // Writes all of `text`, which is not empty, to `parts`, in order.
    Status find(std::string_view text, std::vector<PatternPart>& parts) const;

private:
    std::string text_;
    std::shared_ptr<const Regex> regex_;
    Predicate predicate_ = nullptr;
};

} // namespace hekla::text
