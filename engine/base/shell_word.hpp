// Words of commands that messages print for copying.
#pragma once

#include <string>

namespace hekla {

// Returns the word quoted for a shell where needed.
std::string shell_word(const std::string& word);

} // namespace hekla
