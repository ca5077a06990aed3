#include "plugin/registry/library_file.hpp"

#include "base/file.hpp"
#include "base/sha256.hpp"
#include "plugin/registry/processor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace hekla::plugin {
namespace {

using FileId = std::pair<dev_t, ino_t>;

struct LoadedFile {
    void* handle = nullptr;
    Descriptor file; // stays open, because the dynamic linker also identifies the library by its /proc/PID/fd/N path
    std::string path;
    char* former_name = nullptr; // owned by the linker
};

// The loaded files, by file identity. Global, like the dynamic linker's state.
struct LoadedFiles {
    std::mutex lock;
    std::map<FileId, LoadedFile> files;
    static LoadedFiles& get() {
        static LoadedFiles* loaded = new LoadedFiles(); // never destroyed, since static destructors may still use it
        return *loaded;
    }
};

// Replaces the path in the linker's list, which is the descriptor's path given to dlopen(), because debuggers and
// dladdr() read the name from there. The string is never freed, since plugins are never closed.
void show_path(LoadedFile& loaded) {
    link_map* map = nullptr;
    if (::dlinfo(loaded.handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr) return;
    if (loaded.former_name != nullptr || map->l_name == nullptr) return;
    if (std::string_view(map->l_name).find("/fd/") == std::string_view::npos) return; // was loaded by its path before
    loaded.former_name = map->l_name;
    map->l_name = loaded.path.data();
}

// Returns the message for a library of another processor, which the linker passes over as a file that does not exist;
// empty for any other library.
std::string built_for_another(int file) {
    std::array<char, kElfHeaderSize> header{};
    const ssize_t size = ::pread(file, header.data(), header.size(), 0);
    const std::string other = other_processor({header.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))});
    if (other.empty()) return {};
    return fmt::format("cannot be loaded: it was built for {}, and this process runs on {}: install a build for {}, or "
                       "build it here from its sources",
                       other, own_processor(), own_processor());
}

} // namespace

Result<LibraryFile> LibraryFile::open(const std::string& path) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return not_found(fmt::format("cannot be opened: {}", std::system_category().message(errno)));
    return LibraryFile(path, std::move(file));
}

Result<std::string> LibraryFile::sha256() const {
    // Not mapped: another process may shorten the file meanwhile, which would end this one.
    HK_ASSIGN(const std::string content, read_file(fmt::format("/proc/self/fd/{}", file_.get())));
    return sha256_hex(content);
}

Result<void*> LibraryFile::load() && {
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0)
        return not_found(fmt::format("cannot be loaded: {}", std::system_category().message(errno)));
    LoadedFiles& all = LoadedFiles::get();
    const std::scoped_lock hold(all.lock);
    if (const auto found = all.files.find({info.st_dev, info.st_ino}); found != all.files.end())
        return found->second.handle;
    // The process id instead of "self", because a debugger opens the file by this name while dlopen() runs.
    const std::string name = fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get());
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        if (const std::string other = built_for_another(file_.get()); !other.empty()) return not_found(other);
        const char* const reason = ::dlerror();
        std::string text = reason != nullptr ? reason : "no reason given";
        for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += path_.size())
            text.replace(at, name.size(), path_);
        if (::access("/proc/self/fd", F_OK) != 0)
            text += " (/proc is not mounted; a library is loaded from the open file that was hashed, which needs it)";
        return not_found(fmt::format("cannot be loaded: {}", text));
    }
    LoadedFile& loaded = all.files[{info.st_dev, info.st_ino}];
    loaded.handle = handle;
    loaded.file = std::move(file_);
    loaded.path = path_;
    show_path(loaded);
    return handle;
}

} // namespace hekla::plugin
