#include "base/module.hpp"

#include "base/path_text.hpp"

#include <fmt/format.h>
#include <vector>

namespace hekla {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> places_of(const ModuleName& name, const fs::path& path) {
    if (!path.empty()) return {path_text(path)};
    std::vector<std::string> places;
    if (const fs::path here = own_folder(); !here.empty())
        places = {path_text(here / name.file), path_text(here.parent_path() / "lib" / name.file)};
    places.emplace_back(name.file);
    return places;
}

} // namespace

std::filesystem::path own_folder() {
    const std::string file = file_of(reinterpret_cast<const void*>(&own_folder));
    if (file.empty()) return {};
    std::error_code error;
    // A program found by PATH has its bare name here, which does not refer to a file in the current folder.
    const bool bare = !path_of(file).has_parent_path();
    const fs::path path = fs::canonical(bare ? program_file() : path_of(file), error);
    return error ? fs::path() : path.parent_path();
}

Result<SharedLibrary> open_library(const ModuleName& name, const fs::path& path,
                                   const std::function<bool(void* entry)>& accept) {
    std::string tried;
    for (const std::string& place : places_of(name, path)) {
        std::string why;
        SharedLibrary library = SharedLibrary::open(place, why);
        if (!library) {
            tried += fmt::format("\n  {}", why.empty() ? place : why);
            continue;
        }
        void* const entry = library.symbol(name.entry);
        if (entry != nullptr && accept(entry)) {
            // Never unloaded, because it uses thread-local keys of the process, which are limited (a thousand; glslang
            // takes two each time it is loaded), and threads run their destructors.
            library.pin();
            return library;
        }
        tried += fmt::format("\n  {}: is not {} of this version", place, name.what);
    }
    return unsupported(fmt::format("{}. Tried:{}", name.lack, tried));
}

} // namespace hekla
