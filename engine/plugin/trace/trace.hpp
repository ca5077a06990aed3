// A trace for `hekla plugin trace`: a layer between the host and plugins that writes every call in both directions and
// reports violated rules of plugins/reference. It wraps the functions of both sides without changing their results.
// Without a trace nothing is wrapped.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace hekla::plugin {

struct TraceOptions {
    std::filesystem::path file; // empty: standard error
    bool json = false;          // one object per line
};

// Starts tracing every plugin that is loaded from now on, in the whole process, since functions of a C struct have no
// state. Call it once, before the first plugin is loaded. Errors: io.
Status start_trace(const TraceOptions& options);
bool tracing();

struct TraceSummary {
    uint64_t calls = 0;
    std::map<std::string, uint64_t> broken; // number of violations by rule: "graph.8"
    // The newest minor version used of each struct of the host, and of each operation that is newer than 1.0:
    // "hk_graph_interface" -> 0, "operation cumprod" -> 1.
    std::map<std::string, uint32_t> used;
};
TraceSummary trace_summary();

// For the loader: returns the wrapped table, or the table itself without a trace. Tables live as long as the process.
// plugin: the manifest's name.
const void* traced_host_table(std::string_view interface_id, const void* table);
const void* traced_plugin_table(std::string_view plugin, std::string_view interface_id, std::string_view id,
                                const void* table);
// Traces a call of the entry, e.g. "init"; `what`: its arguments.
void trace_entry(std::string_view plugin, std::string_view function, std::string_view what);

} // namespace hekla::plugin
