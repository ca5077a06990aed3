// What every verb of the command line shares: global options, where plugins and caches are, and how errors are said.
#pragma once

#include "base/log.hpp"
#include "base/status.hpp"
#include "gpu/context.hpp"
#include "hekla/hekla.h"
#include "plugin/registry.hpp"
#include "program/program.hpp"

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hekla::app {

// Exit statuses: 0 done, 1 failed with an error message, 2 wrong usage. A training that a signal stopped exits with
// stopped_status().
inline constexpr int kDone = 0, kFailed = 1, kUsage = 2;

struct Globals {
    std::string device;
    std::vector<std::string> plugin_paths; // in front of the others
    bool validate = false;                 // the validation layer
    bool verbose = false;
    bool no_cache = false;
    std::string trace; // of calls between plugins and the host: a file, "-" for standard error; empty: none
    bool trace_json = false;
    std::string measure_kernels = "gpus"; // never, gpus, always: for verbs that train or measure
    std::string describe = "automatic";   // automatic, child, process: where plugins describe
    std::string describe_program;         // empty: beside this program
    double describe_seconds = 60.0;
    uint64_t describe_memory = 4096; // MiB; 0: no limit
    bool isolate_plugins = false;    // collate and decode in worker processes
    std::string capture;             // hk_capture: where calls go; empty: nowhere

    std::vector<std::filesystem::path> plugin_folders() const; // given, the user's, the program's own
    std::filesystem::path cache_folder() const;                // empty with no_cache
    Log log() const;                                           // to standard error
};

// A verb: its parser is filled by add_*, run is called when it was the one.
struct Verb {
    CLI::App* parser = nullptr;
    std::function<int()> run;
};
using Verbs = std::vector<Verb>;

// One file each.
void add_train(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_predict(CLI::App& app, const Globals& globals, Verbs& verbs); // eval, predict
void add_generate(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_embed(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_verify(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_bench(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_devices(CLI::App& app, const Globals& globals, Verbs& verbs); // devices, doctor
void add_tokenize(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_inspect(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_plugin(CLI::App& app, const Globals& globals, Verbs& verbs);          // plugin list, describe
void add_plugin_check(CLI::App& plugin, const Globals& globals, Verbs& verbs); // plugin check
void add_plugin_dev(CLI::App& plugin, const Globals& globals, Verbs& verbs);   // plugin dev
void add_plugin_new(CLI::App& plugin, Verbs& verbs);                           // plugin new
void add_plugin_trace(CLI::App& plugin, const Globals& globals, Verbs& verbs); // plugin trace
void add_convert(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_export(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_batches(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_replay(CLI::App& app, const Globals& globals, Verbs& verbs); // replay, diff
void add_replay_calls(CLI::App& app, const Globals& globals, Verbs& verbs);

// Around a verb that runs traced: plugin_trace.cpp. end_trace says how many calls there were and which rules were
// broken, and gives the verb's status, or kFailed where one was.
Status begin_trace(const Globals& globals);
int end_trace(const Globals& globals, int status);

// "hekla: error: MESSAGE" on standard error; kFailed.
int fail(const Status& status);
int fail(const std::string& message);
int finish(const Result<int>& result); // the status, or fail()

// Mesa's CPU driver is told the widest vectors that this CPU has, unless the user decided. A training step of
// shakespeare-char-cpu took 205 ms instead of 283 on Mesa 25.0.7, a matmul a third of the time on 26.2. Called before
// the driver is loaded into this process.
void choose_vector_width();

// Where this program lies. Error: io.
Result<std::filesystem::path> own_path();
// How it is started again: its path and the options that concern the device and plugins. plugins: a folder of them in
// front of the others; may be empty.
Result<std::vector<std::string>> own_command(const Globals& globals, const std::filesystem::path& plugins = {});

plugin::Registry scan_plugins(const Globals& globals);
gpu::ContextOptions context_options(const Globals& globals);
program::Measure measure_of(const Globals& globals);
// Says it where there is no GPU.
Result<std::unique_ptr<program::Runtime>> create_runtime(const Globals& globals, program::RuntimeOptions options = {});
// On a context that was made before, with the cache that the options name; says nothing.
Result<std::unique_ptr<program::Runtime>> runtime_on(const Globals& globals, gpu::Context context,
                                                     program::RuntimeOptions options = {});

// hekla.h from C++: an error object, a context, and options filled from the globals.
struct HostError {
    HostError() : error(hk_error_create()) {}
    HostError(const HostError&) = delete;
    HostError& operator=(const HostError&) = delete;
    ~HostError() { hk_error_destroy(error); }
    int report() const; // says it; kFailed
    hk_error* error;
};
struct HostContext {
    HostContext() = default;
    HostContext(const HostContext&) = delete;
    HostContext& operator=(const HostContext&) = delete;
    ~HostContext() { hk_context_destroy(context); }
    // kDone or the status it failed with. kind: HK_DEVICE_*
    int create(const Globals& globals, const HostError& error, bool trains = false, int32_t kind = HK_DEVICE_OWN);
    hk_context context{};
};
inline hk_string text(std::string_view s) { return {s.data(), s.size()}; }
std::vector<hk_string> host_strings(const std::vector<std::string>& from); // they point into `from`
inline std::string_view view(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

// Whether SIGINT, SIGTERM or SIGHUP came since watch_interrupts(). The second signal ends the program.
bool interrupted();
void watch_interrupts(); // a SIGHUP that is ignored (nohup) stays ignored
int stopped_status();    // 128 + the number of the first signal, as shells report it: 130 after Ctrl+C
// From now on writing to a closed pipe fails instead of ending the program.
void outlive_closed_output();

} // namespace hekla::app
