// Paths as texts in UTF-8, which messages, files and the C API have on every system. std::filesystem::path and its
// string() use the system's encoding instead.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace hekla {

inline std::filesystem::path path_of(std::string_view utf8) { return std::u8string(utf8.begin(), utf8.end()); }

inline std::string path_text(const std::filesystem::path& path) {
    const std::u8string text = path.u8string();
    return {text.begin(), text.end()};
}

} // namespace hekla
