// A word for a command that people copy.
#pragma once

#include <string>

namespace hekla {

// As a shell reads it back: in quotes where it needs them.
std::string shell_word(const std::string& word);

} // namespace hekla
