// The trace of this process: its state, its lines, and the number of violations of each rule.
#pragma once

#include "base/file_handle.hpp"
#include "plugin/trace/trace_arguments.hpp"

#include "hekla/plugin/graph.h"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace hekla::plugin::trace {

// The use of one builder, from the start of the build call to its end.
struct BuilderState {
    std::string plugin;
    std::thread::id thread;
    bool in_gradient = false;
    int scopes = 0;
    bool region = false;
    int losses = 0;
    std::unordered_set<hk_value> values;
};

struct Trace {
    FileHandle file; // none: standard error
    bool json = false;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::atomic<uint64_t> calls{0};
    std::mutex lock;
    std::map<std::string, uint64_t> broken;
    std::map<std::string, uint32_t> used;
    std::unordered_map<const hk_builder*, BuilderState> builders;
    std::set<std::pair<std::string, const void*>> instances; // "mixer architecture 'mixer'", self
    std::unordered_map<std::thread::id, int> threads;        // small numbers for readers
};

// Returns the trace of this process; null: there is none. Global, because wrapped functions of C structs have no state.
Trace*& current_trace();

// A call into a plugin in progress on a thread.
struct Frame {
    std::string plugin, call;
    const hk_builder* builder = nullptr;
};
// Returns the calls of this thread, the innermost last.
std::vector<Frame>& frames();

double milliseconds(); // since the trace began
void write_line(std::string line);

enum class Event : char {
    enter = '>',  // from the host into a plugin
    leave = '<',  // back from it
    within = '.', // from the plugin into the host and back
};
// Writes a line about one call. took: milliseconds; below 0: not shown.
void write_call(Event event, std::size_t depth, std::string_view call, const ordered_json& arguments,
                const std::string& result, const std::string& error, double took = -1);

// Writes and counts a violation: what happened, with the text of the rule.
void report_broken(std::string_view rule, const std::string& what);

// Records that a function of the host's table, of this minor version, is used.
void note_use(std::string_view table, uint32_t since);

} // namespace hekla::plugin::trace
