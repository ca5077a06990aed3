// Texts of an example that are composed of several columns of its file: "Question: {question}\nAnswer:".
#pragma once

#include "base/status.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::data {

class TextTemplate {
public:
    // `{NAME}` is the column NAME; `{{` and `}}` are braces. Errors: a brace without its partner; a column without a
    // name.
    static Result<TextTemplate> parse(std::string_view text);
    // `{{NAME}}` is the column NAME, and a single brace is itself. Errors: `{{` without `}}`, a name that is not
    // letters, digits, spaces and `_`, `-`, `.`, such as an expression.
    static Result<TextTemplate> parse_doubled(std::string_view text);

    const std::vector<std::string>& columns() const { return columns_; } // each once, in the order of the text
    // Returns the text with the values that `of` returns for the columns.
    std::string text(const std::function<std::string_view(std::string_view column)>& of) const;
    // Returns the same, or nothing if a value is blank.
    std::optional<std::string> fill(const std::function<std::string_view(std::string_view column)>& of) const;

private:
    struct Piece {
        bool is_column = false;
        std::string text; // or the column's name
    };
    std::vector<Piece> pieces_;
    std::vector<std::string> columns_;
};

} // namespace hekla::data
