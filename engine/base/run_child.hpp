// Runs a program without input and with limits, so that a crash or hang does not affect this process.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hekla {

struct ChildLimits {
    double seconds = 60.0;           // wall time, after which it is killed with its children
    uint64_t memory_bytes = 0;       // limit of the address space; 0: none
    std::function<bool()> stop = {}; // asked while it runs; once it returns true, the program is killed as at the limit
};

struct ChildResult {
    int status = -1; // exit status; -1 if a signal ended it
    int signal = 0;
    bool timed_out = false, stopped = false;
    double seconds = 0.0;
    std::string out, error; // at most 1 MiB each: the beginning and the end
};

// command: the program's absolute path and its arguments. Error: the program cannot be started. Thread: any.
Result<ChildResult> run_child(const std::vector<std::string>& command, const ChildLimits& limits);

} // namespace hekla
