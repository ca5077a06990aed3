#include "train/run/run_folder.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
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
            if (is_leftover(entry->path().filename().string()) && entry->is_regular_file(error))
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
    lock_ = std::exchange(other.lock_, -1);
    kept_ = other.kept_;
    return *this;
}

RunFolder::~RunFolder() { forget(); }

void RunFolder::forget() noexcept {
    if (lock_ < 0 && made_.empty()) return;
    try {
        std::error_code error;
        if (!kept_ && lock_ >= 0) { // no other training writes here while the lock is held
            std::vector<fs::path> ours;
            for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error))
                if (!before_.contains(entry->path().filename().string())) ours.push_back(entry->path());
            for (const fs::path& path : ours) fs::remove_all(path, error);
        }
        if (!kept_)
            for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());
    } catch (const std::exception&) { // out of memory: the next run removes the remaining files
    }
    made_.clear();
    if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

Status RunFolder::take_lock() {
    const fs::path file = path_ / kLock;
    for (int attempt = 0; attempt < 100; ++attempt) {
        const int lock = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (lock < 0)
            return io_error(fmt::format("{}: the output folder cannot be written to: {}: make it writable, or choose "
                                        "another [output] dir",
                                        path_.string(), std::strerror(errno)));
        if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
            const int number = errno;
            char holder[32] = {};
            const ssize_t got = ::read(lock, holder, sizeof holder - 1);
            ::close(lock);
            if (number != EWOULDBLOCK)
                return io_error(fmt::format("{}: cannot be locked: {}: choose an [output] dir on a file system with "
                                            "locks",
                                            file.string(), std::strerror(number)));
            std::string who(holder, static_cast<std::size_t>(got > 0 ? got : 0));
            while (!who.empty() && (who.back() == '\n' || who.back() == ' ')) who.pop_back();
            return failed_precondition(fmt::format("{}: another training runs in this folder{}: wait for it, or choose "
                                                   "another [output] dir",
                                                   path_.string(), who.empty() ? "" : " (process " + who + ")"));
        }
        // The previous owner may have removed the file between open and flock; then this locks a deleted file.
        struct stat ours {
        }, there{};
        if (::fstat(lock, &ours) == 0 && ::stat(file.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
            ours.st_dev == there.st_dev) {
            const std::string text = fmt::format("{}\n", ::getpid());
            if (::ftruncate(lock, 0) != 0 || ::write(lock, text.data(), text.size()) < 0) {
                // Disk full: the lock is held without the process id, which is only for people.
            }
            lock_ = lock;
            return {};
        }
        ::close(lock);
    }
    return failed_precondition(
        fmt::format("{}: changes all the time: another training begins or ends here; try again", file.string()));
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
        if (::mkdir(at->c_str(), 0777) == 0) {
            folder.made_.push_back(*at);
        } else if (errno != EEXIST) {
            return io_error(fmt::format("{}: the output folder cannot be made: {}: choose another [output] dir",
                                        at->string(), std::strerror(errno)));
        }
    }
    if (!fs::is_directory(folder.path_, error))
        return io_error(fmt::format("{}: is not a folder: choose another [output] dir", folder.path_.string()));
    for (fs::directory_iterator entry(folder.path_, error), end; !error && entry != end; entry.increment(error))
        folder.before_.insert(entry->path().filename().string());
    if (error) return io_error(fmt::format("{}: cannot be listed: {}", folder.path_.string(), error.message()));
    HK_TRY(folder.take_lock());
    remove_leftovers(folder.path_);
    remove_leftovers(folder.path_ / "cache");
    return folder;
}

} // namespace hekla::train
