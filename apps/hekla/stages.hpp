// Stages of `hekla doctor --test` and `--lab`: each runs in a process of its own, with a time limit, so that a driver
// that crashes or hangs ends one stage and not the report.
#pragma once

#include "command.hpp"
#include "report/outcome.hpp"

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hekla::app {

using StageOutcome = report::Outcome;

struct StageInput {
    const Globals& globals;
    double seconds = 0;               // after which the stage should end
    std::vector<report::Line> before; // the lines of the report so far
    std::filesystem::path folder;     // for temporary files; deleted after the stage
};

struct Stage {
    const char* name;
    double seconds; // that it should take at most; it is ended after twice as long and 20 s
    Result<StageOutcome> (*run)(const StageInput& input);
};

struct StagesOptions {
    std::string kind;           // "test" or "lab": the head of the report
    std::filesystem::path file; // the report; empty: none
    double seconds = 0;         // of all stages; those that do not fit are skipped
    bool json = false;          // lines of JSON in place of lines for people
    // Returns the sentences that follow from the report, whose last line is that of the stage. May be empty.
    std::function<std::vector<std::string>(const std::vector<report::Line>& lines)> decide = {};
    // Returns the line to paste. May be empty.
    std::function<std::string(const std::vector<report::Line>& lines)> summary = {};
};

// Runs the stages, the first of which is the device: without it the others are skipped. Returns kDone if the results of
// all stages are right.
int run_stages(const Globals& globals, std::span<const Stage> stages, const StagesOptions& options);

// What the process of a stage does: runs it and prints its outcome as JSON.
struct StageProcess {
    std::string name;
    std::string report; // file with the lines so far
    double seconds = 0;
};
int run_stage(const Globals& globals, std::span<const Stage> stages, const StageProcess& process);

} // namespace hekla::app
