// Regular expressions in PCRE2's syntax: one that matches a whole text, or all matches within it.
#pragma once

#include "base/status.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

// Returns whether the expression, in PCRE2's syntax, matches all of the text. Errors (invalid_argument): it is not a
// regular expression; it needs more than 100,000 steps for this text. Thread: any.
Result<bool> matches_expression(std::string_view expression, std::string_view text);

// Returns every match in the text, from left to right, as Python's re.findall() does: the text of its only group, or of
// its first group that is not empty, or without groups all of it. The same errors. Thread: any.
Result<std::vector<std::string>> find_matches(std::string_view expression, std::string_view text);

} // namespace hekla::text
