// A file read from front to back and unpacked on the way, so that no file need fit in memory.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>

namespace hekla::data {

// Thread: one at a time.
class ByteStream {
public:
    // gzip (RFC 1952, several members too) and Zstandard (RFC 8878, several frames too) are known by their first bytes,
    // whatever the file is called; everything else is read as it is. Errors: no such file, no regular file.
    static Result<std::unique_ptr<ByteStream>> open(const std::filesystem::path& path);
    virtual ~ByteStream() = default;
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;

    // Fills up to `size` bytes (at least 1); 0 at the end. Errors: packed bytes that are damaged or end too early
    // (names the file).
    virtual Result<std::size_t> read(char* out, std::size_t size) = 0;

protected:
    ByteStream() = default;
};

} // namespace hekla::data
