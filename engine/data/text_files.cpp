#include "data/text_files.hpp"

#include "base/file_pattern.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_set>

namespace hekla::data {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

Result<std::vector<fs::path>> entries(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code error;
    fs::directory_iterator at(folder.empty() ? "." : folder, error);
    while (!error && at != fs::directory_iterator()) {
        // Keeps "x" in the folder "" as "x", not "./x", because messages show what the user wrote.
        found.push_back(folder / at->path().filename());
        at.increment(error);
    }
    if (error) return io_error(fmt::format("{}: cannot list the folder: {}", folder.string(), error.message()));
    std::sort(found.begin(), found.end());
    return found;
}

// Linked folders are not entered, because links can form a cycle.
bool is_own_folder(const fs::path& path) {
    std::error_code ignored;
    return fs::is_directory(fs::symlink_status(path, ignored));
}

Status all_below(const fs::path& folder, std::vector<fs::path>& found) {
    HK_ASSIGN(const std::vector<fs::path> inside, entries(folder));
    std::error_code ignored;
    for (const fs::path& path : inside) {
        if (is_hidden(path)) continue;
        if (fs::is_regular_file(path, ignored)) found.push_back(path);
        if (is_own_folder(path)) HK_TRY(all_below(path, found));
    }
    return {};
}

bool has_wildcard(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

// Matches the parts of a pattern from `at` on, below `folder`.
Status match(const fs::path& folder, std::span<const fs::path> parts, std::vector<fs::path>& found) {
    const std::string part = parts.front().string();
    const std::span<const fs::path> rest = parts.subspan(1);
    std::error_code ignored;
    if (part == "**") {
        if (rest.empty()) return all_below(folder, found);
        HK_TRY(match(folder, rest, found));
    }
    if (!has_wildcard(part)) {
        const fs::path path = folder / part;
        if (!rest.empty()) return fs::is_directory(path, ignored) ? match(path, rest, found) : Status();
        if (fs::is_regular_file(path, ignored)) found.push_back(path);
        return {};
    }
    HK_ASSIGN(const std::vector<fs::path> inside, entries(folder));
    for (const fs::path& path : inside) {
        if (part == "**") {
            if (!is_hidden(path) && is_own_folder(path)) HK_TRY(match(path, parts, found));
            continue;
        }
        if (!matches_file_name(part, path.filename())) continue;
        if (rest.empty() && fs::is_regular_file(path, ignored)) found.push_back(path);
        if (!rest.empty() && fs::is_directory(path, ignored)) HK_TRY(match(path, rest, found));
    }
    return {};
}

} // namespace

Result<std::vector<fs::path>> find_text_files(std::span<const std::string> inputs) {
    if (inputs.empty()) return invalid_argument("no input was given; expected a file, a folder or a pattern");
    std::vector<fs::path> all;
    std::unordered_set<std::string> seen;
    std::error_code ignored;
    for (const std::string& input : inputs) {
        std::vector<fs::path> found;
        if (fs::is_directory(input, ignored)) {
            HK_TRY(all_below(input, found));
            if (found.empty()) return not_found(fmt::format("{}: the folder contains no files", input));
        } else if (fs::exists(input, ignored)) { // also a name that contains pattern characters
            found.emplace_back(input);
        } else if (has_wildcard(input)) {
            const fs::path pattern(input);
            const fs::path below_root = pattern.relative_path();
            const std::vector<fs::path> parts(below_root.begin(), below_root.end());
            HK_TRY(match(pattern.root_path(), parts, found));
            if (found.empty()) return not_found(fmt::format("{}: no file matches this pattern", input));
            std::sort(found.begin(), found.end());
        } else {
            return not_found(fmt::format("{}: no such file or folder", input.empty() ? "\"\"" : input));
        }
        for (fs::path& path : found)
            if (seen.insert(path.lexically_normal().string()).second) all.push_back(std::move(path));
    }
    return all;
}

} // namespace hekla::data
