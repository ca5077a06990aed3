#include "crash_report.hpp"

#include "base/crash_signals.hpp"
#include "base/system_file.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace hekla::app {
namespace {

// The plugin calls in progress. A signal handler can access only globals.
struct PluginCalls {
    static constexpr int kMost = 8; // nested calls deeper than that are counted, not named
    int depth = 0;
    std::array<std::array<char, 512>, kMost> texts{}; // "collate() of plugin 'x' (/path/x.so)"
};
thread_local PluginCalls t_calls;

[[maybe_unused]] void report_crash() {
    if (t_calls.depth == 0) return;
    const int at = std::min(t_calls.depth, PluginCalls::kMost) - 1;
    write_to_standard_error("\nhekla: error: crashed in ");
    write_to_standard_error(t_calls.texts[static_cast<std::size_t>(at)].data());
    write_to_standard_error(". This is a fault of the plugin; plugins.isolate = true in a recipe, or "
                            "--isolate-plugins, runs it in a process of its own\n");
}

} // namespace

void report_plugin_crashes() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // their own handlers report more
    report_crashes(report_crash);
#endif
}

void enter_plugin(std::string_view plugin, std::string_view library, std::string_view function) {
    const int at = t_calls.depth++;
    if (at >= PluginCalls::kMost) return;
    auto& text = t_calls.texts[static_cast<std::size_t>(at)];
    std::snprintf(text.data(), text.size(), "%.*s() of plugin '%.*s' (%.*s)", static_cast<int>(function.size()),
                  function.data(), static_cast<int>(plugin.size()), plugin.data(), static_cast<int>(library.size()),
                  library.data());
}

void leave_plugin() { --t_calls.depth; }

} // namespace hekla::app
