// A file written beside its place with its size and hash counted on the way, and a file's hash read back.
#pragma once

#include "base/file.hpp"
#include "base/hash.hpp"

#include <filesystem>
#include <memory>

namespace hekla::model {

struct FileRecord {
    std::string name; // within its folder
    uint64_t size = 0;
    Hash128 hash; // XXH3-128 of the content
};

// As AtomicFile; commit() says what was written: the hash is of the bytes given, not of what the disk made of them.
class HashedFile {
public:
    static Result<HashedFile> create(const std::filesystem::path& path);
    HashedFile(HashedFile&& other) noexcept;
    HashedFile& operator=(HashedFile&& other) noexcept;
    ~HashedFile(); // without commit() nothing remains

    Status write(std::span<const std::byte> bytes);
    Status write(std::string_view bytes);
    Result<FileRecord> commit(); // sync, rename, sync the folder

private:
    struct State;
    HashedFile(AtomicFile file, std::string name, std::unique_ptr<State> state);
    AtomicFile file_;
    std::string name_;
    std::unique_ptr<State> state_;
    uint64_t size_ = 0;
};

// Size and hash of a regular file, read in pieces: a failing disk is an error here, where a mapped read would be a
// signal.
Result<FileRecord> hash_file(const std::filesystem::path& path);

} // namespace hekla::model
