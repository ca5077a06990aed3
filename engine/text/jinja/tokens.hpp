// Splits a Jinja template into its texts and the tokens of its tags.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text::jinja {

struct Token {
    enum class Kind : uint8_t {
        text,
        output_begin,
        output_end,
        tag_begin,
        tag_end,
        name,
        string,
        integer,
        real,
        mark,
        end
    };
    Kind kind = Kind::end;
    std::string text = {};
    std::size_t line = 0;
};

// Ends with a token of the kind `end`. White space around tags is removed as trim_blocks and lstrip_blocks do. Errors
// contain the line; one is a template that is not UTF-8.
Result<std::vector<Token>> tokens_of(std::string_view text);

} // namespace hekla::text::jinja
