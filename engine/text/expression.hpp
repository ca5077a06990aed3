// A regular expression that is matched against a whole text.
#pragma once

#include "base/status.hpp"

#include <string_view>

namespace hekla::text {

// Returns whether the expression, in PCRE2's syntax, matches all of the text. Errors (invalid_argument): it is not a
// regular expression; it needs more than 100,000 steps for this text. Thread: any.
Result<bool> matches_expression(std::string_view expression, std::string_view text);

} // namespace hekla::text
