// The rows of a JSON file as texts, each with the line that it begins on: one object a line (JSON lines), or the
// elements of one array.
#pragma once

#include "data/line_reader.hpp"

#include <memory>

namespace hekla::data {

// A reader of JSON texts. Thread: one at a time.
class JsonRecords {
public:
    // Opens a file. One that begins with `[` is one array, and is read element by element. max_bytes: of a row.
    static Result<std::unique_ptr<JsonRecords>> open(const std::filesystem::path& path, std::size_t max_bytes,
                                                     const ReadOptions& options = {});
    virtual ~JsonRecords() = default;
    JsonRecords(const JsonRecords&) = delete;
    JsonRecords& operator=(const JsonRecords&) = delete;

    // Returns the next row; nothing at the end. Errors: those of ByteStream::read; cancelled; lines that end in CR
    // alone; an array without its end, or with something after it.
    virtual Result<std::optional<Line>> next() = 0;
    // Returns whether nothing but blanks and empty lines follows. The last row stays valid only if it is empty.
    virtual Result<bool> only_blanks_follow() = 0;
    virtual bool is_array() const = 0;

protected:
    JsonRecords() = default;
};

} // namespace hekla::data
