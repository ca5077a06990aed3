#include "plugin/trace/trace.hpp"

#include "base/path_text.hpp"
#include "base/system_file.hpp"
#include "plugin/trace/trace_host.hpp"
#include "plugin/trace/trace_log.hpp"
#include "plugin/trace/trace_plugin.hpp"

#include <fmt/format.h>
#include <memory>
#include <system_error>

namespace hekla::plugin {

Status start_trace(const TraceOptions& options) {
    if (trace::current_trace() != nullptr) return failed_precondition("this process is traced already");
    auto started = std::make_unique<trace::Trace>();
    started->json = options.json;
    if (!options.file.empty()) {
        std::error_code problem;
        started->file = open_to_append(options.file, Missing::create, problem);
        if (problem)
            return io_error(
                fmt::format("{}: the trace cannot be written: {}", path_text(options.file), problem.message()));
    }
    trace::current_trace() = started.release(); // never freed: plugins keep the tables
    return {};
}

bool tracing() { return trace::current_trace() != nullptr; }

TraceSummary trace_summary() {
    TraceSummary summary;
    if (!tracing()) return summary;
    trace::Trace& t = *trace::current_trace();
    summary.calls = t.calls;
    const std::scoped_lock hold(t.lock);
    summary.broken = t.broken;
    summary.used = t.used;
    return summary;
}

const void* traced_host_table(std::string_view interface_id, const void* table) {
    return tracing() && table != nullptr ? trace::wrapped_host_table(interface_id, table) : table;
}

const void* traced_plugin_table(std::string_view plugin, std::string_view interface_id, std::string_view id,
                                const void* table) {
    return tracing() && table != nullptr ? trace::wrapped_plugin_table(plugin, interface_id, id, table) : table;
}

void trace_entry(std::string_view plugin, std::string_view function, std::string_view what) {
    if (!tracing()) return;
    trace::current_trace()->calls.fetch_add(1, std::memory_order_relaxed);
    trace::frames().push_back({std::string(plugin), std::string(function), nullptr});
    trace::write_call(function == "host.get_interface" ? trace::Event::within : trace::Event::enter, 0, function,
                      {{"of", trace::json_of(what)}}, "", "");
    trace::frames().pop_back();
}

} // namespace hekla::plugin
