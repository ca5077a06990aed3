// Patterns of file names, as in a shell.
#pragma once

#include <filesystem>
#include <string>

namespace hekla {

// Matches the name of a file with a pattern of '*', '?' and '[...]'. Only a '.' in the pattern matches one that begins
// the name.
bool matches_file_name(const std::string& pattern, const std::filesystem::path& name);

} // namespace hekla
