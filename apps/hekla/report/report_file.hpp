// The report of `hekla doctor --test` and `--lab`: a file with a line of JSON for each stage, which is written as soon
// as the stage has ended, so that a crash loses no stage before it.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::report {

using Line = nlohmann::ordered_json;

// What a report must not contain.
struct Private {
    std::vector<std::string> words; // names of users and hosts
    static Private of_this_process();
};

// Returns the value with "(path)" in place of every absolute path of its texts, and "(name)" in place of private words.
Line without_private(Line value, const Private& names);

// Lines of a report. The first is its head: {"report": "lab", "format": 1, ...}; each stage has one with "stage".
class ReportFile {
public:
    // Replaces the file; an empty path: lines are kept in memory only.
    static Result<ReportFile> create(std::filesystem::path path);
    // Removes what is private, keeps the line and appends it to the file.
    Status append(Line line);
    const std::vector<Line>& lines() const { return lines_; }

private:
    std::filesystem::path path_;
    Private names_;
    std::vector<Line> lines_;
};

// Errors name file and line: a line that is not an object (except an incomplete last one, which a crash left), a first
// line that is not a head.
Result<std::vector<Line>> read_report(const std::filesystem::path& path);

// Returns the "result" of a stage, null if the report does not have it. Valid as long as the lines.
const Line* result_of(const std::vector<Line>& lines, std::string_view stage);
// Returns whether a stage was run and its results were right.
bool passed(const std::vector<Line>& lines, std::string_view stage);

} // namespace hekla::report
