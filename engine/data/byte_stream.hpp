// A file that is read from front to back and decompressed on the way, so that it need not fit in memory.
#pragma once

#include "base/status.hpp"
#include "data/read_options.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>

namespace hekla::data {

// Thread: one at a time.
class ByteStream {
public:
    // gzip (RFC 1952, several members too) and Zstandard (RFC 8878, several frames too) are recognized by their first
    // bytes, not by the file's name; everything else is read as it is. Errors: the file does not exist, or is not a
    // regular file.
    static Result<std::unique_ptr<ByteStream>> open(const std::filesystem::path& path,
                                                    const DecompressionLimits& limits = {});
    virtual ~ByteStream() = default;
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;

    // Reads up to `size` bytes (at least 1); 0 at the end. Errors name the file: compressed bytes that are damaged or
    // truncated, more text than the limits allow.
    virtual Result<std::size_t> read(char* out, std::size_t size) = 0;

protected:
    ByteStream() = default;
};

} // namespace hekla::data
