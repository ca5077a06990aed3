// Files: whole reads, read-only maps, and writes that are either complete or absent.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hekla {

// The whole file as bytes. Errors name the path and what the system said; what is no regular file (a folder, a pipe) is
// refused at once.
Result<std::string> read_file(const std::filesystem::path& path);

// Writes `path` so that a crash or a full disk leaves either the old content or the new: a temporary file in the same
// folder, synced, renamed over `path`, and the folder synced. The temporary is removed on error.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Flushes a file's or a folder's own entry to the disk.
Status sync_path(const std::filesystem::path& path);

// A file being written beside its final place (see write_file_atomically), for content that does not fit in memory.
class AtomicFile {
public:
    static Result<AtomicFile> create(const std::filesystem::path& path);
    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&& other) noexcept;
    ~AtomicFile(); // without commit() nothing remains

    Status write(std::span<const std::byte> bytes);
    Status write(std::string_view bytes);
    Status commit(); // sync, rename, sync the folder

private:
    AtomicFile(std::filesystem::path path, std::filesystem::path temporary, int descriptor);
    void discard() noexcept;
    std::filesystem::path path_;
    std::filesystem::path temporary_;
    int descriptor_ = -1;
};

// A file mapped read-only. Bytes stay valid while this lives. An empty file maps to an empty span; what is
// no regular file is refused.
class MappedFile {
public:
    static Result<MappedFile> open(const std::filesystem::path& path);
    MappedFile() = default;
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
    std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

private:
    const void* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace hekla
