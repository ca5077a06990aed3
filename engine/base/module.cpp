#include "base/module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <string_view>
#include <vector>

namespace hekla {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> places_of(const ModuleName& name, const fs::path& path) {
    if (!path.empty()) return {path.string()};
    std::vector<std::string> places;
    if (const fs::path here = own_folder(); !here.empty())
        places = {(here / name.file).string(), (here.parent_path() / "lib" / name.file).string()};
    places.emplace_back(name.file);
    return places;
}

} // namespace

std::filesystem::path own_folder() {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<const void*>(&own_folder), &info) || !info.dli_fname) return {};
    std::error_code error;
    // A program found by PATH has its bare name here, which does not refer to a file in the current folder.
    const bool bare = std::string_view(info.dli_fname).find('/') == std::string_view::npos;
    const fs::path path = fs::canonical(bare ? "/proc/self/exe" : info.dli_fname, error);
    return error ? fs::path() : path.parent_path();
}

void CloseLibrary::operator()(void* library) const { dlclose(library); }

Result<OpenLibrary> open_library(const ModuleName& name, const fs::path& path,
                                 const std::function<bool(void* entry)>& accept) {
    std::string tried;
    for (const std::string& place : places_of(name, path)) {
        OpenLibrary library(dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL));
        if (library == nullptr) {
            const char* why = dlerror();
            tried += fmt::format("\n  {}", why != nullptr ? why : place);
            continue;
        }
        void* const entry = dlsym(library.get(), name.entry);
        if (entry != nullptr && accept(entry)) {
            // Never unloaded, because it uses thread-local keys of the process, which are limited (a thousand; glslang
            // takes two each time it is loaded), and threads run their destructors.
            if (void* kept = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE)) dlclose(kept);
            return library;
        }
        tried += fmt::format("\n  {}: is not {} of this version", place, name.what);
    }
    return unsupported(fmt::format("{}. Tried:{}", name.lack, tried));
}

} // namespace hekla
