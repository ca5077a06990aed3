// Patterns of names, such as those of parameters in recipes.
#pragma once

#include <string_view>

namespace hekla {

// Matches a name with a pattern, in which '*' matches any characters, or none.
bool matches(std::string_view pattern, std::string_view name);

} // namespace hekla
