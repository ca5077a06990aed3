#include "base/shared_library.hpp"

#include "base/system_file.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <map>
#include <mutex>
#include <string_view>
#include <unistd.h>

namespace hekla {
namespace {

constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL;

struct LoadedFile {
    SharedLibrary library;
    FileHandle file; // stays open, because the dynamic linker also identifies the library by its /proc/PID/fd/N path
    std::string path;
    char* former_name = nullptr; // owned by the linker
};

// The loaded files, by file identity. Global, like the dynamic linker's state.
struct LoadedFiles {
    std::mutex lock;
    std::map<FileIdentity, LoadedFile> files;
    static LoadedFiles& get() {
        static LoadedFiles* loaded = new LoadedFiles(); // never destroyed, since static destructors may still use it
        return *loaded;
    }
};

// Replaces the path in the linker's list, which is the descriptor's path given to dlopen(), because debuggers and
// dladdr() read the name from there. The string is never freed, since these libraries are never closed.
void show_path(void* handle, LoadedFile& loaded) {
    link_map* map = nullptr;
    if (::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr) return;
    if (loaded.former_name != nullptr || map->l_name == nullptr) return;
    if (std::string_view(map->l_name).find("/fd/") == std::string_view::npos) return; // was loaded by its path before
    loaded.former_name = map->l_name;
    map->l_name = loaded.path.data();
}

} // namespace

SharedLibrary SharedLibrary::open(const std::string& name, std::string& reason) {
    SharedLibrary library;
    library.handle_ = ::dlopen(name.c_str(), kLoadFlags);
    library.name_ = name;
    if (!library) {
        const char* const text = ::dlerror();
        reason = text != nullptr ? text : "";
    }
    return library;
}

SharedLibrary::~SharedLibrary() {
    if (handle_ != nullptr) ::dlclose(handle_);
}

void* SharedLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

void SharedLibrary::pin() const {
    if (void* const again = ::dlopen(name_.c_str(), kLoadFlags | RTLD_NOLOAD | RTLD_NODELETE)) ::dlclose(again);
}

const SharedLibrary* load_open_file(FileHandle& file, const std::string& path, std::string& reason) {
    std::error_code problem;
    const FileFacts facts = facts_of(file, problem);
    if (problem) {
        reason = problem.message();
        return nullptr;
    }
    LoadedFiles& all = LoadedFiles::get();
    const std::scoped_lock hold(all.lock);
    if (const auto found = all.files.find(facts.identity); found != all.files.end()) {
        file.close();
        return &found->second.library;
    }
    // The process id instead of "self", because a debugger opens the file by this name while dlopen() runs.
    const std::string name = fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
    SharedLibrary library = SharedLibrary::open(name, reason);
    if (!library) {
        if (reason.empty()) reason = "no reason given";
        for (std::size_t at = 0; (at = reason.find(name, at)) != std::string::npos; at += path.size())
            reason.replace(at, name.size(), path);
        if (::access("/proc/self/fd", F_OK) != 0)
            reason += " (/proc is not mounted; a library is loaded from the open file that was hashed, which needs it)";
        return nullptr;
    }
    LoadedFile& loaded = all.files[facts.identity];
    loaded.library = std::move(library);
    loaded.file = std::move(file);
    loaded.path = path;
    show_path(loaded.library.handle_, loaded);
    return &loaded.library;
}

std::string file_of(const void* address) {
    Dl_info info{};
    return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::filesystem::path program_file() { return "/proc/self/exe"; }

} // namespace hekla
