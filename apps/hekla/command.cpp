#include "command.hpp"
#include "program/runtime.hpp"

#include "crash_report.hpp"

#include "base/home_folder.hpp"
#include "base/host.hpp"
#include "base/interrupts.hpp"
#include "base/own_program.hpp"
#include "base/printable.hpp"
#include "base/shared_library.hpp"
#include "hekla/capture.h"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

fs::path from_environment(const char* variable, const char* below_home) {
    if (const char* value = std::getenv(variable); value != nullptr && value[0] == '/') return value;
    const fs::path home = home_folder();
    return home.empty() ? fs::path() : home / below_home;
}

int32_t describe_of(const Globals& globals) {
    return globals.describe == "child"     ? HK_DESCRIBE_CHILD
           : globals.describe == "process" ? HK_DESCRIBE_IN_PROCESS
                                           : HK_DESCRIBE_AUTOMATIC;
}

// "llvmpipe Mesa 25.0.7-2 (LLVM 15.0.6)" -> 25; 0 for another driver.
int mesa_version_of_cpu_driver() {
    Result<std::vector<gpu::DeviceInfo>> devices = gpu::Device::list();
    if (!devices.ok()) return 0;
    for (const gpu::DeviceInfo& device : devices.value()) {
        const std::size_t mesa = device.driver.find("Mesa ");
        if (device.type == gpu::DeviceType::cpu && mesa != std::string::npos)
            return std::atoi(device.driver.c_str() + mesa + 5);
    }
    return 0;
}

} // namespace

void choose_vector_width() {
#if defined(__x86_64__)
    if (std::getenv("LP_NATIVE_VECTOR_WIDTH") != nullptr || !__builtin_cpu_supports("avx512f") ||
        !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
        return;
    // The driver reads the variable once, when it is loaded.
    if (answer_of_copy([] { return mesa_version_of_cpu_driver() > 0; }))
        set_environment("LP_NATIVE_VECTOR_WIDTH", "512");
#endif
}

fs::path Globals::user_plugin_folder() {
    const fs::path data = from_environment("XDG_DATA_HOME", ".local/share");
    return data.empty() ? fs::path() : data / "hekla" / "plugins";
}

std::vector<fs::path> Globals::plugin_folders() const {
    std::vector<fs::path> folders(plugin_paths.begin(), plugin_paths.end());
    std::error_code problem;
    if (const fs::path own = user_plugin_folder(); fs::is_directory(own, problem)) folders.push_back(own);
    if (const Result<fs::path> program = own_path(); program.ok())
        folders.push_back(program->parent_path().parent_path() / "lib" / "hekla" / "plugins");
    return folders;
}

Result<fs::path> own_path() {
    std::error_code problem;
    fs::path program = fs::read_symlink(program_file(), problem);
    if (problem) return io_error(fmt::format("the path of this program cannot be read: {}", problem.message()));
    return program;
}

Result<std::vector<std::string>> own_command(const Globals& globals, const fs::path& plugins) {
    HK_ASSIGN(const fs::path self, own_path());
    std::vector<std::string> command{self.string()};
    std::vector<fs::path> folders(globals.plugin_paths.begin(), globals.plugin_paths.end());
    if (!plugins.empty()) folders.insert(folders.begin(), plugins);
    std::error_code problem;
    for (const fs::path& folder : folders) {
        command.insert(command.end(), {"--plugin-path", fs::absolute(folder, problem).string()});
    }
    if (!globals.device.empty()) command.insert(command.end(), {"--device", globals.device});
    if (globals.no_cache) command.emplace_back("--no-cache");
    if (!globals.trace.empty()) command.insert(command.end(), {"--trace-plugins", globals.trace});
    if (globals.trace_json) command.emplace_back("--trace-json");
    const Globals usual;
    if (globals.describe != usual.describe) command.insert(command.end(), {"--describe-in", globals.describe});
    if (!globals.describe_program.empty())
        command.insert(command.end(), {"--describe-program", fs::absolute(globals.describe_program, problem).string()});
    if (globals.plugin_seconds != usual.plugin_seconds)
        command.insert(command.end(), {"--plugin-seconds", fmt::format("{}", globals.plugin_seconds)});
    if (globals.plugin_memory != usual.plugin_memory)
        command.insert(command.end(), {"--plugin-memory", fmt::format("{}", globals.plugin_memory)});
    if (globals.isolate_plugins) command.emplace_back("--isolate-plugins");
    return command;
}

fs::path Globals::cache_folder() const {
    if (no_cache) return {};
    const fs::path cache = from_environment("XDG_CACHE_HOME", ".cache");
    return cache.empty() ? fs::path() : cache / "hekla";
}

Log Globals::log() const {
    return Log(
        [](Severity severity, std::string_view message) {
            const char* prefix = severity == Severity::error     ? "hekla: error: "
                                 : severity == Severity::warning ? "hekla: warning: "
                                                                 : "hekla: ";
            std::fprintf(stderr, "%s%s\n", prefix, printable(message).c_str());
        },
        verbose ? Severity::debug : Severity::info);
}

int fail(const std::string& message) {
    std::fprintf(stderr, "hekla: error: %s\n", printable(message).c_str());
    return kFailed;
}

int fail(const Status& status) {
    const int failed = fail(status.message());
    return status.code() == Code::cancelled && interrupted() ? stopped_status() : failed;
}

int finish(const Result<int>& result) { return result.ok() ? result.value() : fail(result.status()); }

plugin::Registry scan_plugins(const Globals& globals) {
    plugin::Registry registry = plugin::Registry::scan(globals.plugin_folders(), globals.log());
    for (const std::string_view warning : registry.warnings()) globals.log().warning(warning);
    plugin::Processes processes;
    processes.describe = static_cast<plugin::Processes::Describe>(describe_of(globals));
    processes.program = globals.describe_program;
    processes.seconds = globals.plugin_seconds;
    processes.memory_bytes = globals.plugin_memory << 20;
    processes.isolate = globals.isolate_plugins;
    processes.disable_failing = true;
    registry.set_processes(std::move(processes));
    report_plugin_crashes();
    registry.set_call_observer([](const plugin::Manifest& manifest, std::string_view function, bool entered) {
        if (entered)
            enter_plugin(manifest.plugin, manifest.library, function);
        else
            leave_plugin();
    });
    return registry;
}

gpu::ContextOptions context_options(const Globals& globals) {
    gpu::ContextOptions options;
    options.device.log = globals.log();
    options.device.select = globals.device;
    options.device.validation = globals.validate ? gpu::Validation::on : gpu::Validation::off;
    options.cache = folder_cache(globals.cache_folder());
    return options;
}

program::Measure measure_of(const Globals& globals) {
    return globals.measure_kernels == "always" ? program::Measure::always
           : globals.measure_kernels == "gpus" ? program::Measure::on_gpus
                                               : program::Measure::never;
}

Result<std::unique_ptr<program::Runtime>> runtime_on(const Globals& globals, gpu::Context context,
                                                     program::RuntimeOptions options) {
    options.cache = folder_cache(globals.cache_folder());
    return program::Runtime::create(std::move(context), options);
}

Result<std::unique_ptr<program::Runtime>> create_runtime(const Globals& globals, program::RuntimeOptions options) {
    choose_vector_width();
    HK_ASSIGN(gpu::Context context, gpu::create_context(context_options(globals)));
    if (context.device->chosen_for_lack_of_another())
        globals.log().info(fmt::format("no GPU found; computing on the CPU ({})", context.capabilities().device_name));
    return runtime_on(globals, std::move(context), std::move(options));
}

Result<program::Runtime*> DeviceOnDemand::runtime() {
    if (runtime_ == nullptr) { HK_ASSIGN(runtime_, create_runtime(globals_, options_)); }
    return runtime_.get();
}

Status HostError::status() const {
    return {static_cast<Code>(hk_error_code(error)), std::string(view(hk_error_message(error)))};
}

int HostError::report() const { return fail(status()); }

std::vector<hk_string> host_strings(const std::vector<std::string>& from) {
    std::vector<hk_string> all;
    for (const std::string& one : from) all.push_back(text(one));
    return all;
}

int HostContext::create(const Globals& globals, const HostError& error, int32_t kind) {
    std::vector<std::string> folders;
    for (const fs::path& folder : globals.plugin_folders()) folders.push_back(folder.string());
    const std::vector<hk_string> plugins = host_strings(folders);
    const std::string cache = globals.cache_folder().string();
    hk_context_options options{};
    options.struct_size = sizeof options;
    options.validation = globals.validate ? 1 : 0;
    options.device = text(globals.device);
    options.plugin_folders = plugins.data();
    options.plugin_folder_count = plugins.size();
    options.cache_folder = text(cache);
    options.describe = describe_of(globals);
    options.describe_program = text(globals.describe_program);
    options.describe_seconds = globals.plugin_seconds;
    options.describe_memory =
        globals.plugin_memory > 0 ? globals.plugin_memory << 20 : std::numeric_limits<uint64_t>::max();
    options.isolate_plugins = globals.isolate_plugins ? 1 : 0;
    options.measure_kernels = static_cast<int32_t>(measure_of(globals));
    options.log = [](void*, int32_t severity, hk_string message) {
        Globals().log().write(static_cast<Severity>(severity), view(message));
    };
    report_plugin_crashes();
    options.plugin_call = [](void*, hk_string plugin, hk_string library, hk_string function, int32_t entered) {
        if (entered != 0)
            enter_plugin(view(plugin), view(library), view(function));
        else
            leave_plugin();
    };
    // A capture begins with the name of the device.
    options.device_kind = kind == HK_DEVICE_ON_DEMAND && !globals.capture.empty() ? HK_DEVICE_OWN : kind;
    if (kind != HK_DEVICE_NONE) choose_vector_width();
    if (hk_context_create(&options, &context, error.error) != HK_OK) return error.report();
    if (!globals.capture.empty() && hk_capture(context, text(globals.capture), error.error) != HK_OK)
        return error.report();
    return kDone;
}

} // namespace hekla::app
