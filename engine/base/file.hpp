// Files: whole reads, read-only maps, and writes that are either complete or absent.
#pragma once

#include "base/file_handle.hpp"
#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hekla {

// Reads a whole file as bytes. Errors contain the path and the system's reason. Refuses everything but a regular file
// (a folder, a pipe, a device) without waiting for it, and a file of more than `most_bytes` (corrupt).
Result<std::string> read_file(const std::filesystem::path& path, uint64_t most_bytes = UINT64_MAX);

// Returns true for the name of an entry of a folder: no separators, not "." or "..", no control characters, at most 255
// bytes.
bool is_plain_file_name(std::string_view name);

// Writes `path` so that a crash or a full disk leaves either the old content or the new: writes and syncs a temporary
// file in the same folder, renames it to `path`, and syncs the folder. The temporary is removed on error.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Deletes the temporary files of `path` from killed writers, except those of living writers or less than ten seconds
// old. Errors are ignored, because a leftover does no harm and is tried again next time.
void remove_leftovers(const std::filesystem::path& path) noexcept;

// Flushes a file, or a folder's entries, to the disk.
Status sync_path(const std::filesystem::path& path);

// A file that is written under a temporary name first (see write_file_atomically), for content that does not fit in
// memory.
class AtomicFile {
public:
    static Result<AtomicFile> create(const std::filesystem::path& path);
    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&& other) noexcept;
    ~AtomicFile(); // without commit(), removes the temporary

    Status write(std::span<const std::byte> bytes);
    Status write(std::string_view bytes);
    Status commit(); // sync, rename, sync the folder

private:
    AtomicFile(std::filesystem::path path, std::filesystem::path temporary, FileHandle file);
    void discard() noexcept;
    std::filesystem::path path_;
    std::filesystem::path temporary_;
    FileHandle file_;
};

// A file mapped read-only; its bytes are valid as long as the object. An empty file maps to an empty span; everything
// but a regular file is refused.
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
