// The lines of a file, one after the other, whatever it is packed in.
#pragma once

#include "base/status.hpp"
#include "data/byte_stream.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hekla::data {

struct Line {
    std::string_view text; // without its end; valid until the next line is read
    std::string_view end;  // "\n", "\r\n", or nothing behind the last line of a file
    uint64_t number = 0;   // from 1
    bool too_long = false; // longer than `limit`: `text` is empty, and all of it was passed over
    std::size_t limit = 0; // bytes
};

// Thread: one at a time.
class LineReader {
public:
    // Memory is two times max_line bytes at most. A byte order mark of UTF-8 at the front is left out.
    static Result<LineReader> open(const std::filesystem::path& path, std::size_t max_line);
    const std::string& name() const { return name_; }

    // The next line; nothing at the end. Errors: those of ByteStream::read.
    Result<std::optional<Line>> next();

private:
    LineReader(std::unique_ptr<ByteStream> stream, std::string name, std::size_t max_line)
        : stream_(std::move(stream)), name_(std::move(name)), max_line_(max_line) {}
    Result<bool> fill(); // false at the end

    std::unique_ptr<ByteStream> stream_;
    std::string name_;
    std::size_t max_line_;
    std::string buffer_;
    std::size_t begin_ = 0; // of what was not handed out
    bool at_end_ = false;
    uint64_t number_ = 0;
};

} // namespace hekla::data
