// What `hekla plugin trace` shows: a layer between the host and plugins that writes every call in both directions, and
// names every rule of plugins/reference that it sees broken. The functions of both sides are wrapped, their results are
// the same; without it nothing is wrapped.
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
    bool json = false;          // an object a line
};

// From now on every plugin that is loaded is traced, in this whole process: functions of a C struct have nothing to
// carry a layer with. Called once, before the first plugin is loaded. Errors: io.
Status start_trace(const TraceOptions& options);
bool tracing();

struct TraceSummary {
    uint64_t calls = 0;
    std::map<std::string, uint64_t> broken; // times, by the number of the rule: "graph.8"
    // The newest minor version that was needed of each struct of the host's: "hk_graph_interface" -> 0.
    std::map<std::string, uint32_t> used;
};
TraceSummary trace_summary();

// For the loader: what a side is given in place of a table. Without a trace, the table itself. Tables last as long as
// the process. plugin: the manifest's name.
const void* traced_host_table(std::string_view interface_id, const void* table);
const void* traced_plugin_table(std::string_view plugin, std::string_view interface_id, std::string_view id,
                                const void* table);
// A call of the entry, eg: "init"; `what`: its arguments.
void trace_entry(std::string_view plugin, std::string_view function, std::string_view what);

} // namespace hekla::plugin
