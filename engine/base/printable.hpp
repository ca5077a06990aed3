// Texts of files that others wrote, as a terminal may show them.
#pragma once

#include <string>
#include <string_view>

namespace hekla {

// Returns the text with its control characters as "\x1B", except for newlines and tabs: a terminal would obey them.
// These are the bytes below 32, 127, and U+0080 to U+009F in UTF-8.
std::string printable(std::string_view text);
// Returns whether printable() changes the text.
bool has_control_characters(std::string_view text);

} // namespace hekla
