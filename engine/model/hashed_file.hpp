// A file written under a temporary name, with size and hash computed while writing; and the hash of an existing file.
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

// An AtomicFile whose commit() returns size and hash. The hash is of the given bytes, not read from disk.
class HashedFile {
public:
    static Result<HashedFile> create(const std::filesystem::path& path);
    HashedFile(HashedFile&& other) noexcept;
    HashedFile& operator=(HashedFile&& other) noexcept;
    ~HashedFile(); // without commit(), removes the temporary

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

// Returns size and hash of a regular file. Reads it in pieces, because then a failing disk is an error; with a mapped
// file it would be a signal.
Result<FileRecord> hash_file(const std::filesystem::path& path);

} // namespace hekla::model
