// The last line of a text, such as what a program wrote before it ended.
#pragma once

#include <string_view>

namespace hekla {

// Returns a part of `text`: its last line, without blanks and empty lines after it. Empty if there is none.
inline std::string_view last_line(std::string_view text) {
    text = text.substr(0, text.find_last_not_of(" \n") + 1);
    return text.substr(text.rfind('\n') + 1); // npos + 1 is 0
}

} // namespace hekla
