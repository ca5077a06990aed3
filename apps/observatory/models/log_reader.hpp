// The log of a training in any process, as it grows: RUN/train_log.jsonl, an object a line.
#pragma once

#include "models/curves.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace observatory {

class LogReader {
public:
    // A log, or the folder of a run that has one. Throws a Failure that says what was looked for.
    explicit LogReader(const std::filesystem::path& path);
    const std::filesystem::path& file() const { return file_; }
    const Curves& curves() const { return curves_; }
    uint64_t bad_lines() const { return bad_lines_; } // that are no object with a step

    // Takes what was written since. A log that became shorter, or another file, was begun anew: so are the curves.
    // Throws a Failure where the file is gone.
    void read();

private:
    void take(const std::string& line);
    std::filesystem::path file_;
    uint64_t read_ = 0; // bytes
    std::string begun_; // of a line that has no end yet
    std::string first_; // the first line: another one is another run
    Curves curves_;
    uint64_t bad_lines_ = 0;
};

} // namespace observatory
