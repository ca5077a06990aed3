#include "watched_files.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSourceEndings[] = {".c",   ".h",   ".cc",   ".cpp",  ".cxx", ".c++",  ".hh",
                                               ".hpp", ".hxx", ".inc",  ".inl",  ".ipp", ".rs",   ".zig",
                                               ".s",   ".asm", ".glsl", ".comp", ".spv", ".cmake"};
constexpr std::string_view kBuildFiles[] = {"CMakeLists.txt", "CMakePresets.json", "build.sh",   "Makefile",
                                            "makefile",       "GNUmakefile",       "Cargo.toml", "meson.build"};

// Recognizes a manifest by its content, since the folder may contain other JSON files.
bool is_manifest(const fs::path& file) {
    if (file.extension() != ".json") return false;
    const Result<std::string> text = read_file(file);
    return text.ok() && text.value().find("\"provides\"") != std::string::npos;
}

bool is_watched(const fs::path& file) {
    const std::string name = file.filename().string(), ending = file.extension().string();
    if (name.starts_with(".") || name.starts_with("#")) return false; // .#mixer.cpp, .mixer.cpp.swp, #mixer.cpp#
    return std::ranges::find(kSourceEndings, ending) != std::end(kSourceEndings) ||
           std::ranges::find(kBuildFiles, name) != std::end(kBuildFiles) || is_manifest(file);
}

bool is_output(const fs::path& folder) {
    const std::string name = folder.filename().string();
    if (name == "build" || name == "target" || name == "out" || name.starts_with(".")) return true;
    std::error_code problem;
    return fs::exists(folder / "train_log.jsonl", problem) || name.starts_with("checkpoint-");
}

} // namespace

FileStates watched_files(const fs::path& folder, const fs::path& recipe) {
    FileStates states;
    std::error_code problem;
    const auto add = [&](const fs::path& file) {
        FileState state;
        state.written = fs::last_write_time(file, problem);
        state.bytes = fs::file_size(file, problem);
        states[file] = state;
    };
    for (auto at = fs::recursive_directory_iterator(folder, problem); at != fs::recursive_directory_iterator();
         at.increment(problem)) {
        if (at->is_directory(problem)) {
            if (is_output(at->path())) at.disable_recursion_pending();
        } else if (is_watched(at->path())) {
            add(at->path());
        }
    }
    if (fs::exists(recipe, problem)) add(recipe);
    return states;
}

} // namespace hekla::app
