// A zip archive in memory, read by the system's zip library (libzip), which is opened at run time: only PyTorch's
// checkpoints and archives of plugins need it, and it depends on a cryptography library.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct zip; // libzip's

namespace hekla::model {

class ZipArchive {
public:
    // The bytes must outlive this. purpose: what needs a zip archive, for the message if libzip is missing. Errors:
    // unsupported (no libzip), corrupt.
    static Result<ZipArchive> open(std::span<const std::byte> bytes, const char* purpose);
    ZipArchive(ZipArchive&& other) noexcept;
    ZipArchive& operator=(ZipArchive&&) = delete;
    ~ZipArchive();

    int64_t count() const;
    std::string_view name(int64_t entry) const;  // "" if it has none that can be read
    int64_t find(const std::string& name) const; // -1: there is none
    // Returns whether an entry's bytes stand in the archive as they are: neither compressed nor encrypted. `size`: of
    // the entry, as the archive declares it. Error: corrupt.
    Result<bool> stored(int64_t entry, uint64_t& size) const;
    // Reads an entry of `size` bytes, the declared size, and compares its checksum. Error: corrupt.
    Result<std::unique_ptr<std::byte[]>> read(int64_t entry, uint64_t size) const;

private:
    struct Library;
    ZipArchive(std::unique_ptr<const Library> library, zip* opened);
    static Result<std::unique_ptr<const Library>> load(const char* purpose);
    Status failure(int64_t entry, const char* why) const;
    std::unique_ptr<const Library> library_;
    zip* zip_ = nullptr;
};

} // namespace hekla::model
