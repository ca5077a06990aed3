// Follows the log of a training in any process: RUN/train_log.jsonl, one object per line.
#pragma once

#include "models/curves.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace observatory {

class LogReader {
public:
    // Opens a log file, or the log in a run's folder. Throws a Failure that names the expected file.
    explicit LogReader(const std::filesystem::path& path);
    const std::filesystem::path& file() const { return file_; }
    const Curves& curves() const { return curves_; }
    uint64_t bad_lines() const { return bad_lines_; } // that are not an object with a step

    // Reads what was appended since the last call. If the file was replaced or became shorter, starts over with empty
    // curves. Throws a Failure if the file does not exist any more.
    void read();

private:
    void take(const std::string& line);
    std::filesystem::path file_;
    uint64_t read_ = 0; // bytes
    std::string begun_; // the incomplete last line
    std::string first_; // the first line, which identifies the run
    Curves curves_;
    uint64_t bad_lines_ = 0;
};

} // namespace observatory
