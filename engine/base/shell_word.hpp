// Words of commands that a message shows for copying.
#pragma once

#include <string>

namespace hekla {

// Returns the word as a shell reads it back, in quotes where needed.
std::string shell_word(const std::string& word);

} // namespace hekla
