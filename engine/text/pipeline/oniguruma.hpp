// Oniguruma's regular expressions, in which tokenizer.json files are written, in the syntax of PCRE2, which runs them.
#pragma once

#include "base/status.hpp"

#include <string>
#include <string_view>

namespace hekla::text {

// Returns an expression of PCRE2 (with UTF, UCP and MULTILINE) that matches the same texts: classes within classes and
// \S within them are spelled as alternatives, \s, \w, \d and \h are Unicode's sets, properties are those of scripts and
// categories alone. Error (unsupported): syntax that has another meaning in PCRE2, or none.
Result<std::string> pcre2_of_oniguruma(std::string_view expression);

} // namespace hekla::text
