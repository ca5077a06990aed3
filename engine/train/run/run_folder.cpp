#include "train/run/run_folder.hpp"

#include "base/host.hpp"
#include "base/path_text.hpp"
#include "base/system_file.hpp"

#include <fmt/format.h>
#include <utility>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";

// "loss.svg.tmp.Xy12Za": temporary file of a killed AtomicFile (base/file.cpp).
bool is_leftover(const std::string& name) {
    const std::size_t at = name.rfind(".tmp.");
    return at != std::string::npos && at > 0 && name.size() == at + 11;
}

void remove_leftovers(const fs::path& folder) noexcept {
    try {
        std::error_code error;
        std::vector<fs::path> found;
        for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
            if (is_leftover(path_text(entry->path().filename())) && entry->is_regular_file(error))
                found.push_back(entry->path());
        for (const fs::path& path : found) fs::remove(path, error);
    } catch (const std::exception&) { // leftover files only take up space
    }
}

} // namespace

RunFolder::RunFolder(RunFolder&& other) noexcept { *this = std::move(other); }

RunFolder& RunFolder::operator=(RunFolder&& other) noexcept {
    if (this == &other) return *this;
    forget();
    path_ = std::move(other.path_);
    made_ = std::move(other.made_);
    before_ = std::move(other.before_);
    lock_ = std::move(other.lock_);
    kept_ = other.kept_;
    return *this;
}

RunFolder::~RunFolder() { forget(); }

void RunFolder::forget() noexcept {
    if (!owned() && made_.empty()) return;
    try {
        std::error_code error;
        if (!kept_ && owned()) { // no other training writes here while the lock is held
            std::vector<fs::path> ours;
            for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error))
                if (!before_.contains(path_text(entry->path().filename()))) ours.push_back(entry->path());
            for (const fs::path& path : ours) fs::remove_all(path, error);
        }
        if (!kept_)
            for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) remove_empty_folder(*folder);
    } catch (const std::exception&) { // out of memory: the next run removes the remaining files
    }
    made_.clear();
    lock_.close();
}

Status RunFolder::take_lock() {
    const fs::path file = path_ / kLock;
    for (int attempt = 0; attempt < 100; ++attempt) {
        std::error_code problem;
        FileHandle lock = open_or_create_lock(file, problem);
        if (problem)
            return io_error(fmt::format("{}: the output folder cannot be written to: {}: make it writable, or choose "
                                        "another [output] dir",
                                        path_text(path_), problem.message()));
        if (const Lock got = try_lock_file(lock, problem); got != Lock::taken) {
            if (got == Lock::not_supported)
                return io_error(fmt::format("{}: cannot be locked: {}: choose an [output] dir on a file system with "
                                            "locks",
                                            path_text(file), problem.message()));
            char holder[32];
            std::string who(holder, read_some(lock, holder, sizeof holder - 1, problem));
            while (!who.empty() && (who.back() == '\n' || who.back() == ' ')) who.pop_back();
            return failed_precondition(fmt::format("{}: another training runs in this folder{}: wait for it, or choose "
                                                   "another [output] dir",
                                                   path_text(path_), who.empty() ? "" : " (process " + who + ")"));
        }
        // The previous owner may have removed the file between opening and locking; then this locks a deleted file.
        const FileIdentity ours = facts_of(lock, problem).identity;
        std::error_code gone;
        if (const FileIdentity there = facts_at(file, gone).identity; !problem && !gone && ours == there) {
            // If the disk is full, the lock is held without the process id, which is only for people.
            if (!truncate_file(lock, 0)) (void)write_all(lock, fmt::format("{}\n", process_id()));
            lock_ = std::move(lock);
            return {};
        }
    }
    return failed_precondition(
        fmt::format("{}: changes all the time: another training begins or ends here; try again", path_text(file)));
}

Result<RunFolder> RunFolder::own(const fs::path& path) {
    RunFolder folder;
    folder.path_ = fs::absolute(path).lexically_normal();
    if (!folder.path_.has_filename()) folder.path_ = folder.path_.parent_path(); // "out/"
    std::error_code error;
    std::vector<fs::path> missing;
    for (fs::path at = folder.path_; !fs::exists(at, error) && !error && at.has_relative_path(); at = at.parent_path())
        missing.push_back(at);
    for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
        const std::error_code problem = make_folder(*at);
        if (!problem) {
            folder.made_.push_back(*at);
        } else if (problem != std::errc::file_exists) {
            return io_error(fmt::format("{}: the output folder cannot be made: {}: choose another [output] dir",
                                        path_text(*at), problem.message()));
        }
    }
    if (!fs::is_directory(folder.path_, error))
        return io_error(fmt::format("{}: is not a folder: choose another [output] dir", path_text(folder.path_)));
    for (fs::directory_iterator entry(folder.path_, error), end; !error && entry != end; entry.increment(error))
        folder.before_.insert(path_text(entry->path().filename()));
    if (error) return io_error(fmt::format("{}: cannot be listed: {}", path_text(folder.path_), error.message()));
    HK_TRY(folder.take_lock());
    remove_leftovers(folder.path_);
    remove_leftovers(folder.path_ / "cache");
    return folder;
}

} // namespace hekla::train
