#include "base/file.hpp"

#include "base/descriptor.hpp"
#include "base/unique_name.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace hekla {
namespace {

Status system_error(const char* what, const std::filesystem::path& path, int number) {
    const Code code = number == ENOENT ? Code::not_found : Code::io;
    return {code, fmt::format("{}: {}: {}", path.string(), what, std::strerror(number))};
}

const char* kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

// Opens a regular file for reading. Never blocks: other file types, such as a pipe without a writer, are refused.
Result<Descriptor> open_regular(const std::filesystem::path& path, struct stat& info) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) return system_error("cannot open", path, errno);
    if (::fstat(file.get(), &info) != 0) return system_error("cannot inspect", path, errno);
    if (!S_ISREG(info.st_mode))
        return io_error(fmt::format("{}: is {}, a regular file was expected", path.string(), kind_of(info.st_mode)));
    return file;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

} // namespace

Result<std::string> read_file(const std::filesystem::path& path, uint64_t most_bytes) {
    struct stat info {};
    HK_ASSIGN(const Descriptor file, open_regular(path, info));
    const auto too_long = [&](uint64_t size) {
        return corrupt(fmt::format("{}: is {} bytes long, at most {} were expected", path.string(), size, most_bytes));
    };
    if (static_cast<uint64_t>(info.st_size) > most_bytes) return too_long(static_cast<uint64_t>(info.st_size));
    std::string content;
    content.reserve(static_cast<std::size_t>(info.st_size));
    char buffer[1 << 16];
    for (;;) {
        const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error("cannot read", path, errno);
        if (got == 0) return content;
        content.append(buffer, static_cast<std::size_t>(got));
        if (content.size() > most_bytes) return too_long(content.size()); // the file grew meanwhile
    }
}

bool is_plain_file_name(std::string_view name) {
    if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return c != '/' && c != '\\' && c != ':' && byte >= 0x20 && byte != 0x7f;
    });
}

Status sync_path(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return system_error("cannot open", path, errno);
    // Some file systems cannot sync a folder and return EINVAL.
    if (::fsync(file.get()) != 0 && errno != EINVAL) return system_error("cannot sync", path, errno);
    return {};
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view content) {
    HK_ASSIGN(AtomicFile file, AtomicFile::create(path));
    HK_TRY(file.write(content));
    return file.commit();
}

void remove_leftovers(const std::filesystem::path& path) noexcept {
    constexpr std::size_t kDrawn = 6; // letters that make_unique_name() draws
    constexpr time_t kFresh = 10;     // seconds; a writer locks its file shortly after creating it
    try {
        const std::string stem = path.filename().string() + ".tmp.";
        std::error_code error;
        std::vector<std::filesystem::path> leftovers;
        for (std::filesystem::directory_iterator entry(folder_of(path), error), end; !error && entry != end;
             entry.increment(error)) {
            const std::string name = entry->path().filename().string();
            if (name.size() == stem.size() + kDrawn && name.starts_with(stem)) leftovers.push_back(entry->path());
        }
        for (const std::filesystem::path& leftover : leftovers) {
            const Descriptor file(::open(leftover.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
            struct stat info {};
            if (file.get() < 0 || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
            const bool is_fresh = info.st_mtime + kFresh > ::time(nullptr);
            if (!is_fresh && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(leftover.c_str());
        }
    } catch (const std::exception&) { // out of memory: retried next time
    }
}

AtomicFile::AtomicFile(std::filesystem::path path, std::filesystem::path temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
    if (this != &other) {
        discard();
        path_ = std::move(other.path_);
        temporary_ = std::move(other.temporary_);
        descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
    if (descriptor_ < 0) return;
    ::close(std::exchange(descriptor_, -1));
    ::unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
    std::string temporary = path.string() + ".tmp.XXXXXX";
    int descriptor = -1;
    const auto create_file = [&](const char* name) {
        descriptor = ::open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        return descriptor >= 0;
    };
    if (!make_unique_name(temporary, create_file))
        return system_error("cannot create a temporary file in its folder", path, errno);
    (void)::flock(descriptor, LOCK_EX | LOCK_NB); // tells remove_leftovers() that the writer is alive
    return AtomicFile(path, temporary, descriptor);
}

Status AtomicFile::write(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return system_error("cannot write", path_, errno);
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return {};
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
    return write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Status AtomicFile::commit() {
    if (::fsync(descriptor_) != 0) return system_error("cannot sync", path_, errno);
    if (::close(std::exchange(descriptor_, -1)) != 0) {
        const int number = errno;
        ::unlink(temporary_.c_str());
        return system_error("cannot close", path_, number);
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
        const int number = errno;
        ::unlink(temporary_.c_str());
        return system_error("cannot rename a new file to it", path_, number);
    }
    return sync_path(folder_of(path_));
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    struct stat info {};
    HK_ASSIGN(const Descriptor file, open_regular(path, info));
    MappedFile mapped;
    mapped.size_ = static_cast<std::size_t>(info.st_size);
    if (mapped.size_ == 0) return mapped;
    void* data = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) {
        mapped.size_ = 0;
        return system_error("cannot map", path, errno);
    }
    mapped.data_ = data;
    return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<void*>(data_), size_);
}

} // namespace hekla
