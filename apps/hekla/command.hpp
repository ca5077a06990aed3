// What the verbs of the command line share: global options, the folders of plugins and caches, and how errors are
// reported.
//
// train, prune, scale, eval, generate, chat, predict, embed and replay-calls use the engine through hekla.h alone, as
// any host would, except eval --tasks; that and the other verbs use the rooms of the engine directly.
#pragma once

#include "base/log.hpp"
#include "base/status.hpp"
#include "gpu/context.hpp"
#include "hekla/hekla.h"
#include "plugin/registry/registry.hpp"
#include "program/runtime.hpp"
#include "program/runtime_source.hpp"

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hekla::app {

// Exit statuses: 0 success; 1 failure, with one error on standard error; 2 wrong usage. A verb that a signal stopped
// before its end exits with stopped_status().
inline constexpr int kDone = 0, kFailed = 1, kUsage = 2;

struct Globals {
    std::string device;
    std::vector<std::string> plugin_paths; // searched first
    bool validate = false;                 // the validation layer
    bool verbose = false;
    bool no_cache = false;
    std::string trace; // of calls between plugins and the host: a file, "-" for standard error; empty: none
    bool trace_json = false;
    std::string measure_kernels = "gpus"; // never, gpus, always: for verbs that run models
    std::string describe = "automatic";   // automatic, child, process: where plugins build their graphs
    std::string describe_program;         // empty: next to this program
    double plugin_seconds = 60.0;         // limit of one answer of a child or worker process
    uint64_t plugin_memory = 4096;        // MiB; limit of such a process; 0: unlimited
    bool isolate_plugins = false;         // collate and decode in worker processes
    std::string capture;                  // file of hk_capture; empty: none

    std::vector<std::filesystem::path> plugin_folders() const; // those given, the user's, the program's own
    static std::filesystem::path user_plugin_folder();         // the folder need not exist; empty without a home
    std::filesystem::path cache_folder() const;                // empty with no_cache
    Log log() const;                                           // writes to standard error
};

// A verb: add_* defines its options; run is called if the verb was given.
struct Verb {
    CLI::App* parser = nullptr;
    std::function<int()> run;
};
using Verbs = std::vector<Verb>;

// Each is defined in its own file.
void add_train(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_prune(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_scale(CLI::App& app, const Globals& globals, Verbs& verbs); // scale run, fit, predict, table
void add_eval(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_predict(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_preferences(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_frontier(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_generate(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_chat(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_embed(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_bench(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_bench_exchange(CLI::App& bench, const Globals& globals, Verbs& verbs); // bench exchange
void add_doctor(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_tokenize(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_inspect(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_plugin(CLI::App& app, const Globals& globals, Verbs& verbs);          // plugin list, describe
void add_plugin_check(CLI::App& plugin, const Globals& globals, Verbs& verbs); // plugin check
void add_plugin_dev(CLI::App& plugin, const Globals& globals, Verbs& verbs);   // plugin dev
void add_plugin_new(CLI::App& plugin, Verbs& verbs);                           // plugin new
void add_plugin_install(CLI::App& plugin, const Globals& globals,
                        Verbs& verbs); // plugin install, update, uninstall, index
void add_plugin_trace(CLI::App& plugin, const Globals& globals, Verbs& verbs); // plugin trace
void add_adapter(CLI::App& app, const Globals& globals, Verbs& verbs);         // adapter inspect, merge, convert
void add_adapter_list(CLI::App& adapter, const Globals& globals, Verbs& verbs);
void add_adapter_combine(CLI::App& adapter, const Globals& globals, Verbs& verbs);
void add_adapter_extract(CLI::App& adapter, const Globals& globals, Verbs& verbs);
void add_convert(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_export(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_batches(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_replay(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_diff(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_replay_calls(CLI::App& app, const Globals& globals, Verbs& verbs);
void add_recipe(CLI::App& app, Verbs& verbs);     // recipe keys
void add_completion(CLI::App& app, Verbs& verbs); // completion, reference

// Called around a verb that runs traced (plugin_trace.cpp). end_trace prints the number of calls and the broken rules,
// and returns the verb's status, or kFailed if a rule was broken.
Status begin_trace(const Globals& globals);
int end_trace(const Globals& globals, int status);

// "hekla: error: MESSAGE" on standard error; kFailed, or stopped_status() if a signal cancelled the work.
int fail(const Status& status);
int fail(const std::string& message);
int finish(const Result<int>& result); // the status, or fail()

// Tells Mesa's CPU driver to use the widest vectors of this CPU, unless the user decided. A training step of
// shakespeare-char-cpu took 205 ms instead of 283 on Mesa 25.0.7, a matmul a third of the time on 26.2. Called before
// the driver is loaded into this process.
void choose_vector_width();

// Returns the path of this program. Error: io.
Result<std::filesystem::path> own_path();
// Returns the command that starts this program again: its path and the options for device and plugins. plugins: a
// folder that is searched before the others; may be empty.
Result<std::vector<std::string>> own_command(const Globals& globals, const std::filesystem::path& plugins = {});

plugin::Registry scan_plugins(const Globals& globals);
gpu::ContextOptions context_options(const Globals& globals);
program::Measure measure_of(const Globals& globals);
// Logs a line if there is no GPU.
Result<std::unique_ptr<program::Runtime>> create_runtime(const Globals& globals, program::RuntimeOptions options = {});
// Uses an existing context, with the cache that the options name; logs nothing.
Result<std::unique_ptr<program::Runtime>> runtime_on(const Globals& globals, gpu::Context context,
                                                     program::RuntimeOptions options = {});

// The device of this machine, created when it is first needed, so that a verb's input is checked first.
class DeviceOnDemand {
public:
    explicit DeviceOnDemand(const Globals& globals, program::RuntimeOptions options = {})
        : globals_(globals), options_(std::move(options)) {}
    Result<program::Runtime*> runtime();
    program::RuntimeSource source() {
        return {[this] { return runtime(); }, std::pmr::new_delete_resource()};
    }

private:
    const Globals& globals_;
    program::RuntimeOptions options_;
    std::unique_ptr<program::Runtime> runtime_;
};

// hekla.h from C++: an error object, a context, and options filled in from the globals.
struct HostError {
    HostError() : error(hk_error_create()) {}
    HostError(const HostError&) = delete;
    HostError& operator=(const HostError&) = delete;
    ~HostError() { hk_error_destroy(error); }
    Status status() const;
    int report() const; // prints it; returns what fail() returns
    hk_error* error;
};
struct HostContext {
    HostContext() = default;
    HostContext(const HostContext&) = delete;
    HostContext& operator=(const HostContext&) = delete;
    ~HostContext() { hk_context_destroy(context); }
    // Returns kDone or the status that it failed with. kind: HK_DEVICE_*. By default the device is created by the first
    // call that needs it, so that an error in the verb's input is reported first.
    int create(const Globals& globals, const HostError& error, int32_t kind = HK_DEVICE_ON_DEMAND);
    hk_context context{};
};
inline hk_string text(std::string_view s) { return {s.data(), s.size()}; }
std::vector<hk_string> host_strings(const std::vector<std::string>& from); // they point into `from`
inline std::string_view view(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

// For watch_interrupts().
inline constexpr const char* kStoppedEarly = "hekla: error: stopped before the work began\n";

} // namespace hekla::app
