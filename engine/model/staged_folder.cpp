#include "model/staged_folder.hpp"

#include "base/file.hpp"
#include "base/unique_name.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;

Status system_error(const char* what, const fs::path& path, int number) {
    return {Code::io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(number))};
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Creates a new empty folder TARGET.KIND-XXXXXX.
Result<fs::path> make_temporary_name(const fs::path& target, const char* kind) {
    std::string name = fmt::format("{}.{}-XXXXXX", target.string(), kind);
    if (!make_unique_name(name, [](const char* made) { return ::mkdir(made, 0777) == 0; }))
        return system_error("cannot create a temporary folder in its parent", target, errno);
    return fs::path(name);
}

bool exchange(const fs::path& a, const fs::path& b) {
#ifdef RENAME_EXCHANGE
    return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
#else
    (void)a, (void)b;
    return false;
#endif
}

void remove_quietly(const fs::path& path) noexcept {
    std::error_code error;
    fs::remove_all(path, error);
}

} // namespace

StagedFolder::StagedFolder(fs::path target, fs::path path, int lock)
    : target_(std::move(target)), path_(std::move(path)), lock_(lock) {}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : target_(std::move(other.target_)), path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

StagedFolder& StagedFolder::operator=(StagedFolder&& other) noexcept {
    if (this != &other) {
        discard();
        target_ = std::move(other.target_);
        path_ = std::exchange(other.path_, {});
        lock_ = std::exchange(other.lock_, -1);
    }
    return *this;
}

StagedFolder::~StagedFolder() { discard(); }

void StagedFolder::discard() noexcept {
    if (!path_.empty()) remove_quietly(path_);
    path_.clear();
    if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

Result<StagedFolder> StagedFolder::create(const fs::path& given) {
    fs::path target = given.lexically_normal();
    if (!target.has_filename()) target = target.parent_path(); // "out/" is the folder "out"
    if (!target.has_filename() || target.filename() == "." || target.filename() == "..")
        return invalid_argument(fmt::format("{}: is not a name that a new folder can be given", given.string()));
    std::error_code error;
    fs::create_directories(parent_of(target), error);
    if (error)
        return Status(Code::io,
                      fmt::format("{}: cannot create the folder: {}", parent_of(target).string(), error.message()));
    HK_ASSIGN(fs::path path, make_temporary_name(target, "tmp"));
    const int lock = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0) (void)::flock(lock, LOCK_EX | LOCK_NB); // without file locks, leftovers cannot be recognized
    return StagedFolder(std::move(target), std::move(path), lock);
}

Status StagedFolder::commit(Existing existing) {
    if (path_.empty()) return failed_precondition(target_.string() + ": was committed already");
    HK_TRY(sync_path(path_));
    const Status named = give_name(existing);
    discard(); // after a swap, the previous content
    HK_TRY(named);
    return sync_path(parent_of(target_));
}

Status StagedFolder::give_name(Existing existing) {
    const auto named = [this] {
        path_.clear(); // the folder has been committed or moved
        return Status();
    };
    if (::rename(path_.c_str(), target_.c_str()) == 0) return named();
    if (errno != ENOTEMPTY && errno != EEXIST) return system_error("cannot rename a new folder to it", target_, errno);
    if (existing == Existing::refuse)
        return failed_precondition(target_.string() + ": exists and is not empty; it was left as it is");
    if (exchange(path_, target_)) return {}; // path_ is now the old folder, and discard() removes it
    HK_ASSIGN(const fs::path aside, make_temporary_name(target_, "old"));
    if (::rename(target_.c_str(), aside.c_str()) != 0) {
        const int number = errno;
        ::rmdir(aside.c_str());
        return system_error("cannot rename it", target_, number);
    }
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
        const int number = errno;
        ::rename(aside.c_str(), target_.c_str());
        return system_error("cannot rename a new folder to it", target_, number);
    }
    path_ = aside;
    return {};
}

Status remove_folder(const fs::path& folder) {
    HK_ASSIGN(const fs::path aside, make_temporary_name(folder, "tmp"));
    if (::rename(folder.c_str(), aside.c_str()) != 0) {
        const int number = errno;
        ::rmdir(aside.c_str());
        return system_error("cannot remove it", folder, number);
    }
    std::error_code error;
    fs::remove_all(aside, error);
    if (error) return Status(Code::io, fmt::format("{}: cannot be removed: {}", aside.string(), error.message()));
    return sync_path(parent_of(folder));
}

std::string_view leftover_stem(std::string_view name) {
    constexpr std::size_t kEnding = sizeof ".tmp-XXXXXX" - 1;
    if (name.size() <= kEnding) return {};
    const std::string_view tail = name.substr(name.size() - kEnding);
    if (!tail.starts_with(".tmp-") && !tail.starts_with(".old-")) return {};
    const auto drawn = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    if (!std::all_of(tail.begin() + 5, tail.end(), drawn)) return {};
    return name.substr(0, name.size() - kEnding);
}

namespace {

// Returns whether the lock is free, so that no running writer holds it. Also true if the file system has no locks.
bool is_abandoned(const fs::path& folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return false;
    const bool held = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(descriptor);
    return !held;
}

} // namespace

void recover_folders(const fs::path& parent, std::string_view stem) noexcept {
    try {
        std::error_code error;
        std::vector<fs::path> leftovers;
        for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
            const std::string name = entry->path().filename().string();
            if (leftover_stem(name) == stem) leftovers.push_back(entry->path());
        }
        for (const fs::path& leftover : leftovers) {
            if (!fs::is_directory(fs::symlink_status(leftover, error)) || !is_abandoned(leftover)) continue;
            const bool aside = leftover.string().find(".old-", leftover.string().size() - 11) != std::string::npos;
            // rename() fails if the target exists and is not empty, so a replacement that was already renamed is kept.
            if (aside && !fs::is_empty(leftover, error) && ::rename(leftover.c_str(), (parent / stem).c_str()) == 0)
                continue;
            remove_quietly(leftover);
        }
    } catch (const std::exception&) { // out of memory: retried next time
    }
}

} // namespace hekla::model
