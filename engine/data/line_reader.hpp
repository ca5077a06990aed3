// The lines of a file, compressed or not.
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
    std::string_view end;  // "\n", "\r\n", or empty after the last line of a file
    uint64_t number = 0;   // from 1
    bool too_long = false; // longer than `limit`: `text` is empty, the line was skipped
    std::size_t limit = 0; // bytes
};

// A reader of lines. Thread: one at a time.
class LineReader {
public:
    // Opens a file. Uses at most two times max_line bytes of memory. A UTF-8 byte order mark at the start is skipped.
    static Result<LineReader> open(const std::filesystem::path& path, std::size_t max_line,
                                   const ReadOptions& options = {});
    const std::string& name() const { return name_; }

    // Returns the next line; nothing at the end. Errors: those of ByteStream::read; cancelled.
    Result<std::optional<Line>> next();

    // Returns whether nothing but blanks and empty lines follows. The last line stays valid only if it is empty.
    Result<bool> only_blanks_follow();

private:
    LineReader(std::unique_ptr<ByteStream> stream, std::string name, std::size_t max_line, StopPoll stop)
        : stream_(std::move(stream)), name_(std::move(name)), max_line_(max_line), stop_(std::move(stop)) {}
    Result<bool> fill(); // false at the end

    std::unique_ptr<ByteStream> stream_;
    std::string name_;
    std::size_t max_line_;
    StopPoll stop_;
    std::string buffer_;
    std::size_t begin_ = 0; // of what was not returned yet
    bool at_end_ = false;
    uint64_t number_ = 0;
};

} // namespace hekla::data
