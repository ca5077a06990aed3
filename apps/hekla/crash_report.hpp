// Names the plugin that crashed this program: a plugin runs in this process unless plugins are isolated.
#pragma once

#include <string_view>

namespace hekla::app {

// Installs signal handlers: a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) on a thread that is in a function of a
// plugin is reported on standard error before the signal ends the program.
void report_plugin_crashes();

// Called when the calling thread enters or leaves a function of a plugin.
void enter_plugin(std::string_view plugin, std::string_view library, std::string_view function);
void leave_plugin();

} // namespace hekla::app
