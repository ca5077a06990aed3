#include "model/staged_folder.hpp"

#include "base/file.hpp"
#include "base/path_text.hpp"
#include "base/system_file.hpp"
#include "base/unique_name.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;

Status system_error(const char* what, const fs::path& path, const std::error_code& problem) {
    return {Code::io, fmt::format("{}: {}: {}", path_text(path), what, problem.message())};
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Creates a new empty folder TARGET.KIND-XXXXXX.
Result<fs::path> make_temporary_name(const fs::path& target, const char* kind) {
    std::string name = fmt::format("{}.{}-XXXXXX", path_text(target), kind);
    if (const std::error_code problem =
            make_unique_name(name, [](const std::string& made) { return make_folder(path_of(made)); }))
        return system_error("cannot create a temporary folder in its parent", target, problem);
    return path_of(name);
}

void remove_quietly(const fs::path& path) noexcept {
    std::error_code error;
    fs::remove_all(path, error);
}

} // namespace

StagedFolder::StagedFolder(fs::path target, fs::path path, FileHandle lock)
    : target_(std::move(target)), path_(std::move(path)), lock_(std::move(lock)) {}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : target_(std::move(other.target_)), path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

StagedFolder& StagedFolder::operator=(StagedFolder&& other) noexcept {
    if (this != &other) {
        discard();
        target_ = std::move(other.target_);
        path_ = std::exchange(other.path_, {});
        lock_ = std::move(other.lock_);
    }
    return *this;
}

StagedFolder::~StagedFolder() { discard(); }

void StagedFolder::discard() noexcept {
    if (!path_.empty()) remove_quietly(path_);
    path_.clear();
    lock_.close();
}

Result<StagedFolder> StagedFolder::create(const fs::path& given) {
    fs::path target = given.lexically_normal();
    if (!target.has_filename()) target = target.parent_path(); // "out/" is the folder "out"
    if (!target.has_filename() || target.filename() == "." || target.filename() == "..")
        return invalid_argument(fmt::format("{}: is not a name that a new folder can be given", path_text(given)));
    std::error_code error;
    fs::create_directories(parent_of(target), error);
    if (error)
        return Status(Code::io,
                      fmt::format("{}: cannot create the folder: {}", path_text(parent_of(target)), error.message()));
    HK_ASSIGN(fs::path path, make_temporary_name(target, "tmp"));
    FileHandle lock = open_folder(path, error);
    if (lock.is_open()) (void)try_lock_file(lock, error); // without file locks, leftovers cannot be recognized
    return StagedFolder(std::move(target), std::move(path), std::move(lock));
}

Status StagedFolder::commit(Existing existing) {
    if (path_.empty()) return failed_precondition(path_text(target_) + ": was committed already");
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
    std::error_code problem = rename_path(path_, target_);
    if (!problem) return named();
    if (problem != std::errc::directory_not_empty && problem != std::errc::file_exists)
        return system_error("cannot rename a new folder to it", target_, problem);
    if (existing == Existing::refuse)
        return failed_precondition(path_text(target_) + ": exists and is not empty; it was left as it is");
    if (!exchange_paths(path_, target_)) return {}; // path_ is now the old folder, and discard() removes it
    HK_ASSIGN(const fs::path aside, make_temporary_name(target_, "old"));
    problem = rename_path(target_, aside);
    if (problem) {
        remove_empty_folder(aside);
        return system_error("cannot rename it", target_, problem);
    }
    problem = rename_path(path_, target_);
    if (problem) {
        rename_path(aside, target_);
        return system_error("cannot rename a new folder to it", target_, problem);
    }
    path_ = aside;
    return {};
}

Status remove_folder(const fs::path& folder) {
    HK_ASSIGN(const fs::path aside, make_temporary_name(folder, "tmp"));
    if (const std::error_code problem = rename_path(folder, aside)) {
        remove_empty_folder(aside);
        return system_error("cannot remove it", folder, problem);
    }
    std::error_code error;
    fs::remove_all(aside, error);
    if (error) return Status(Code::io, fmt::format("{}: cannot be removed: {}", path_text(aside), error.message()));
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
    std::error_code problem;
    const FileHandle handle = open_folder(folder, problem);
    return !problem && try_lock_file(handle, problem) != Lock::held_elsewhere;
}

} // namespace

void recover_folders(const fs::path& parent, std::string_view stem) noexcept {
    try {
        std::error_code error;
        std::vector<fs::path> leftovers;
        for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
            const std::string name = path_text(entry->path().filename());
            if (leftover_stem(name) == stem) leftovers.push_back(entry->path());
        }
        for (const fs::path& leftover : leftovers) {
            if (!fs::is_directory(fs::symlink_status(leftover, error)) || !is_abandoned(leftover)) continue;
            const bool aside = path_text(leftover).find(".old-", path_text(leftover).size() - 11) != std::string::npos;
            // Renaming fails if the target exists and is not empty, so a replacement that was already renamed is kept.
            if (aside && !fs::is_empty(leftover, error) && !rename_path(leftover, parent / path_of(stem))) continue;
            remove_quietly(leftover);
        }
    } catch (const std::exception&) { // out of memory: retried next time
    }
}

} // namespace hekla::model
