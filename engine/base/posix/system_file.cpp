#include "base/system_file.hpp"

#include "base/path_text.hpp"
#include "base/posix/system_problem.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hekla {
namespace {

FileHandle opened(const std::filesystem::path& path, int flags, mode_t mode, std::error_code& problem) {
    FileHandle file(::open(path.c_str(), flags | O_CLOEXEC, mode));
    problem = problem_unless(file.is_open());
    return file;
}

FileKind kind_of(mode_t mode) {
    if (S_ISREG(mode)) return FileKind::regular;
    if (S_ISDIR(mode)) return FileKind::folder;
    if (S_ISFIFO(mode)) return FileKind::pipe;
    if (S_ISSOCK(mode)) return FileKind::socket;
    return FileKind::device;
}

FileFacts facts_in(const struct stat& info) {
    return {kind_of(info.st_mode), static_cast<uint64_t>(info.st_size), {info.st_dev, info.st_ino}, info.st_mtime};
}

// Calls `transfer` until no signal interrupts it. Returns the number of bytes; 0 after an error.
template<class F>
std::size_t uninterrupted(std::error_code& problem, F&& transfer) {
    ssize_t done = 0;
    do done = transfer();
    while (done < 0 && errno == EINTR);
    problem = problem_unless(done >= 0);
    return done > 0 ? static_cast<std::size_t>(done) : 0;
}

std::error_code write_to(int descriptor, std::string_view bytes) {
    std::error_code problem;
    while (!bytes.empty() && !problem)
        bytes.remove_prefix(uninterrupted(problem, [&] { return ::write(descriptor, bytes.data(), bytes.size()); }));
    return problem;
}

} // namespace

// O_NONBLOCK: without it, a pipe without a writer would block open().
FileHandle open_to_read(const std::filesystem::path& path, std::error_code& problem, Links links) {
    return opened(path, O_RDONLY | O_NONBLOCK | (links == Links::refuse ? O_NOFOLLOW : 0), 0, problem);
}

FileHandle open_folder(const std::filesystem::path& path, std::error_code& problem) {
    return opened(path, O_RDONLY | O_DIRECTORY, 0, problem);
}

FileHandle open_to_append(const std::filesystem::path& path, Missing missing, std::error_code& problem) {
    return opened(path, O_WRONLY | O_APPEND | (missing == Missing::create ? O_CREAT : 0), 0644, problem);
}

FileHandle create_or_empty(const std::filesystem::path& path, std::error_code& problem) {
    return opened(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, problem);
}

FileHandle create_new(const std::filesystem::path& path, std::error_code& problem) {
    return opened(path, O_RDWR | O_CREAT | O_EXCL, 0666, problem);
}

FileHandle create_nameless(const std::filesystem::path& folder, std::string_view stem, std::error_code& problem) {
#ifdef O_TMPFILE
    if (FileHandle file = opened(folder, O_TMPFILE | O_RDWR, 0600, problem); file.is_open()) return file;
#endif
    std::string name = fmt::format("{}/{}.XXXXXX", path_text(folder), stem);
    FileHandle file(::mkostemp(name.data(), O_CLOEXEC));
    problem = problem_unless(file.is_open());
    if (file.is_open()) ::unlink(name.c_str());
    return file;
}

FileHandle open_or_create_lock(const std::filesystem::path& path, std::error_code& problem) {
    return opened(path, O_RDWR | O_CREAT, 0644, problem);
}

FileFacts facts_of(const FileHandle& file, std::error_code& problem) {
    struct stat info {};
    problem = problem_unless(::fstat(file.get(), &info) == 0);
    return problem ? FileFacts() : facts_in(info);
}

std::size_t read_some(const FileHandle& file, char* into, std::size_t size, std::error_code& problem) {
    return uninterrupted(problem, [&] { return ::read(file.get(), into, size); });
}

std::size_t read_at(const FileHandle& file, uint64_t offset, char* into, std::size_t size, std::error_code& problem) {
    return uninterrupted(problem, [&] { return ::pread(file.get(), into, size, static_cast<off_t>(offset)); });
}

std::error_code write_all(const FileHandle& file, std::string_view bytes) { return write_to(file.get(), bytes); }

std::error_code write_unsynced(const std::filesystem::path& path, std::string_view bytes) {
    std::error_code problem;
    FileHandle file = create_or_empty(path, problem);
    if (!problem) problem = write_all(file, bytes);
    return problem ? problem : file.close();
}

std::error_code write_to_standard_error(std::string_view bytes) { return write_to(STDERR_FILENO, bytes); }

std::error_code sync_file(const FileHandle& file) { return problem_unless(::fsync(file.get()) == 0); }

std::error_code truncate_file(const FileHandle& file, uint64_t size) {
    return problem_unless(::ftruncate(file.get(), static_cast<off_t>(size)) == 0);
}

Lock try_lock_file(const FileHandle& file, std::error_code& problem) {
    problem = problem_unless(::flock(file.get(), LOCK_EX | LOCK_NB) == 0);
    if (!problem) return Lock::taken;
    return problem == std::errc::operation_would_block ? Lock::held_elsewhere : Lock::not_supported;
}

std::filesystem::path path_of_open_file(const FileHandle& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

const void* map_file(const FileHandle& file, std::size_t size, std::error_code& problem) {
    void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    problem = problem_unless(data != MAP_FAILED);
    return problem ? nullptr : data;
}

void unmap_file(const void* data, std::size_t size) noexcept { ::munmap(const_cast<void*>(data), size); }

FileFacts facts_at(const std::filesystem::path& path, std::error_code& problem) {
    struct stat info {};
    problem = problem_unless(::stat(path.c_str(), &info) == 0);
    return problem ? FileFacts() : facts_in(info);
}

Writers writers_of(const std::filesystem::path& path, std::error_code& problem) {
    struct stat info {};
    problem = problem_unless(::stat(path.c_str(), &info) == 0);
    if (problem) return {};
    return {.owner = info.st_uid != ::geteuid() && info.st_uid != 0,
            .group = (info.st_mode & S_IWGRP) != 0 && info.st_gid != ::getegid(),
            .everyone = (info.st_mode & S_IWOTH) != 0,
            .is_folder = S_ISDIR(info.st_mode),
            .renames_own_only = (info.st_mode & S_ISVTX) != 0};
}

std::error_code check_writable_folder(const std::filesystem::path& folder) {
    return problem_unless(::access(folder.c_str(), W_OK | X_OK) == 0);
}

std::error_code rename_path(const std::filesystem::path& from, const std::filesystem::path& to) noexcept {
    return problem_unless(::rename(from.c_str(), to.c_str()) == 0);
}

std::error_code exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b) noexcept {
#ifdef RENAME_EXCHANGE
    return problem_unless(::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0);
#else
    (void)a, (void)b;
    return std::make_error_code(std::errc::function_not_supported);
#endif
}

std::error_code make_folder(const std::filesystem::path& path) {
    return problem_unless(::mkdir(path.c_str(), 0777) == 0);
}

std::error_code make_private_folder(std::string& name) { return problem_unless(::mkdtemp(name.data()) != nullptr); }

std::error_code remove_file(const std::filesystem::path& path) noexcept {
    return problem_unless(::unlink(path.c_str()) == 0);
}

std::error_code remove_empty_folder(const std::filesystem::path& path) noexcept {
    return problem_unless(::rmdir(path.c_str()) == 0);
}

} // namespace hekla
