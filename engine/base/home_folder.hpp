// The home folder, for paths that no shell has read: those of recipes, and of options such as output.dir=~/runs.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace hekla {

// Returns HOME; empty if it is not set to an absolute path.
inline std::filesystem::path home_folder() {
    const char* home = std::getenv("HOME");
    return home != nullptr && home[0] == '/' ? home : "";
}

// Replaces `~` at the beginning of a path, alone or before a slash. Without a home folder the path stays as it is.
inline std::string from_home(const std::string& path) {
    if (path != "~" && !path.starts_with("~/")) return path;
    const std::string home = home_folder().string();
    return home.empty() ? path : home + path.substr(1);
}

} // namespace hekla
