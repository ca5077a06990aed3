// A file that is read sequentially and decompressed while reading, so that it need not fit in memory.
#pragma once

#include "base/status.hpp"
#include "data/read_options.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>

namespace hekla::data {

// A stream of a file's bytes. Thread: one at a time.
class ByteStream {
public:
    // Opens a file. gzip (RFC 1952, including several members) and Zstandard (RFC 8878, including several frames) are
    // detected by their first bytes, not by the file's name; everything else is read unchanged. Errors: the file does
    // not exist, or is not a regular file.
    static Result<std::unique_ptr<ByteStream>> open(const std::filesystem::path& path,
                                                    const DecompressionLimits& limits = {});
    virtual ~ByteStream() = default;
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;

    // Reads up to `size` bytes (at least 1); 0 at the end. Errors contain the file: compressed bytes that are damaged
    // or truncated, more text than the limits allow.
    virtual Result<std::size_t> read(char* out, std::size_t size) = 0;

protected:
    ByteStream() = default;
};

} // namespace hekla::data
