// hekla plugin trace: runs a command, writes every call between the host and plugins, and reports broken rules.
#include "command.hpp"

#include "base/file.hpp"
#include "base/own_program.hpp"
#include "base/path_text.hpp"
#include "plugin/trace/trace.hpp"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

struct TraceArguments {
    std::string output = "-";
    bool json = false;
    std::vector<std::string> command;
};

// Replaces this process with the command, with the options for tracing.
int run_trace(const Globals& globals, const TraceArguments& a) {
    if (globals.describe == "child" || globals.isolate_plugins)
        return fail(
            "a trace covers plugins in its own process only; do not use --describe-in child or --isolate-plugins");
    Globals traced = globals;
    traced.describe = "process";
    traced.trace_json = a.json;
    traced.trace = a.output;
    if (a.output != "-") { // processes of the command append to it from any folder
        std::error_code problem;
        traced.trace = fs::absolute(a.output, problem).string();
        if (const Status emptied = write_file_atomically(traced.trace, ""); !emptied.ok()) return fail(emptied);
    }
    Result<std::vector<std::string>> command = own_command(traced);
    if (!command.ok()) return fail(command.status());
    if (globals.validate) command.value().emplace_back("--validate");
    if (globals.verbose) command.value().emplace_back("--verbose");
    command.value().insert(command.value().end(), {"--measure-kernels", globals.measure_kernels});
    command.value().insert(command.value().end(), a.command.begin(), a.command.end());
    return fail(fmt::format("{}: cannot be started: {}", command->front(), become_program(command.value()).message()));
}

} // namespace

Status begin_trace(const Globals& globals) {
    if (globals.trace.empty()) return {};
    return plugin::start_trace(
        {.file = globals.trace == "-" ? fs::path() : path_of(globals.trace), .json = globals.trace_json});
}

int end_trace(const Globals& globals, int status) {
    if (!plugin::tracing()) return status;
    const plugin::TraceSummary summary = plugin::trace_summary();
    if (summary.calls == 0) return status; // no plugin was loaded here; child processes may have loaded some
    std::string rules;
    for (const auto& [rule, times] : summary.broken)
        rules += fmt::format("{}{} ({} time{})", rules.empty() ? "" : ", ", rule, times, times == 1 ? "" : "s");
    std::fflush(stdout);
    std::fprintf(stderr, "hekla: %llu calls between the host and plugins%s%s; %s%s\n",
                 static_cast<unsigned long long>(summary.calls), globals.trace == "-" ? "" : " in ",
                 globals.trace == "-" ? "" : globals.trace.c_str(),
                 rules.empty() ? "no broken rules" : "rules broken: ", rules.c_str());
    return status == kDone && !rules.empty() ? kFailed : status;
}

void add_plugin_trace(CLI::App& plugin, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = plugin.add_subcommand(
        "trace", "Run a command, write every call between the host and plugins, and report broken rules of the "
                 "reference.");
    const auto a = std::make_shared<TraceArguments>();
    parser->add_option("-o,--output", a->output, "file for the trace; - is standard error")->capture_default_str();
    parser->add_flag("--json", a->json, "one JSON object per line");
    parser->add_option("command", a->command, "after --: a verb of hekla and its arguments")->required();
    parser->footer("Example: hekla --plugin-path build/plugins plugin trace -o calls.txt -- train recipe.toml "
                   "train.max_steps=2\nExit status: that of the command, or 1 if a rule was broken.");
    verbs.push_back({parser, [&globals, a] { return run_trace(globals, *a); }});
}

} // namespace hekla::app
