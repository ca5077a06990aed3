#include "verbs/verify.hpp"

#include "base/path_text.hpp"
#include "bench_case.hpp"
#include "program/runtime.hpp"
#include "verification.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>

namespace hekla::app {
namespace {

// Finds the first operation of the fixture's model, or of its gradient, that the device computes wrongly.
Result<Bisection> bisect_folder(const plugin::Registry& registry, program::Runtime& runtime,
                                const std::filesystem::path& folder, const Log& log, const BisectOptions& options) {
    HK_ASSIGN(const Fixture fixture, read_fixture(registry, folder));
    HK_ASSIGN(const FixtureModel model, describe_fixture(registry, fixture, log));
    HK_ASSIGN(const graph::Graph graph, differentiated(model));
    graph::Feeds feeds;
    feeds.fields = fixture.inputs;
    feeds.parameters = model.parameters;
    HK_ASSIGN(const auto scales, loss_scales(fixture, model));
    for (const auto& [name, scale] : scales) feeds.step_scalars[name] = scale;
    return bisect(runtime, graph, feeds, options);
}

Result<std::unique_ptr<program::Runtime>> make_runtime(const Globals& globals, const VerifyArguments& a) {
    choose_vector_width(); // test the vector width that training uses
    gpu::ContextOptions options = context_options(globals);
    options.device.overrides = a.overrides;
    if (a.gpu_assisted) options.device.validation = gpu::Validation::gpu_assisted;
    HK_ASSIGN(gpu::Context context, gpu::create_context(options));
    if (context.device->chosen_for_lack_of_another())
        globals.log().info(fmt::format("no GPU found; computing on the CPU ({})", context.capabilities().device_name));
    program::RuntimeOptions runtime;
    runtime.kernels_of_gpus = a.gpu_kernels;
    return program::Runtime::create(std::move(context), runtime);
}

} // namespace

int run_verify(const Globals& globals, const VerifyArguments& a) {
    if (a.reference && a.bisect) {
        std::fprintf(stderr, "hekla: error: --bisect compares this device with the interpreter: remove --reference\n");
        return kUsage;
    }
    const program::Storage precision = storage_named(a.dtype);
    if (precision != program::Storage::f32 && (a.reference || a.bisect)) {
        std::fprintf(stderr, "hekla: error: --dtype %s is for the device: remove %s\n", a.dtype.c_str(),
                     a.reference ? "--reference" : "--bisect");
        return kUsage;
    }
    std::error_code problem;
    for (const std::string& folder : a.folders)
        if (!std::filesystem::exists(path_of(folder) / "config.json", problem))
            return fail(not_found(fmt::format("{}: not a fixture folder: it has no config.json", folder)));
    const plugin::Registry registry = scan_plugins(globals);
    std::unique_ptr<program::Runtime> runtime;
    if (!a.reference) {
        Result<std::unique_ptr<program::Runtime>> made = make_runtime(globals, a);
        if (!made.ok()) return fail(made.status());
        runtime = made.take();
    }
    std::size_t passed = 0;
    nlohmann::json reports = nlohmann::json::array();
    for (const std::string& name : a.folders) {
        const std::filesystem::path folder = path_of(name);
        FixtureReport report;
        report.fixture = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
        const auto begin = std::chrono::steady_clock::now();
        report.problem = verify_fixture(registry, runtime.get(), folder, globals.log(), precision, report);
        report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        passed += report.pass() ? 1 : 0;
        if (a.json)
            reports.push_back(report.json());
        else
            std::printf("%s\n", report.line().c_str());
        if (a.bisect) {
            BisectOptions options = a.bisection;
            options.folder /= report.fixture;
            const Result<Bisection> found = bisect_folder(registry, *runtime, folder, globals.log(), options);
            if (!found.ok()) return fail(found.status());
            if (a.json)
                reports.back()["bisect"] = {{"found", found->found},
                                            {"node", found->node},
                                            {"output", found->output},
                                            {"error", std::isfinite(found->error) ? nlohmann::json(found->error)
                                                                                  : nlohmann::json("not a number")},
                                            {"reproduced", found->reproduced},
                                            {"reproducer", found->reproducer.string()}};
            else
                std::printf("    %s\n", found->text().c_str());
        }
        std::fflush(stdout);
    }
    if (a.json)
        std::printf("%s\n", reports.dump(1).c_str());
    else
        std::printf("%zu of %zu pass\n", passed, a.folders.size());
    if (runtime != nullptr) {
        const gpu::ValidationCounts counts = runtime->gpu().device->validation_counts();
        if (counts.errors > 0)
            return fail(
                fmt::format("the validation layer reported {} errors; the first: {}", counts.errors, counts.first));
    }
    return passed == a.folders.size() ? kDone : kFailed;
}

void add_verify_options(CLI::App& parser, VerifyArguments& a) {
    parser.add_flag("--reference", a.reference, "check the float64 interpreter instead of the device");
    parser.add_flag("--bisect", a.bisect,
                    "find the first operation that this device computes wrongly, and write a reproducer");
    a.bisection.folder = "hekla-reproducer";
    parser.add_option("--output", a.bisection.folder, "folder for the reproducers of --bisect")->capture_default_str();
    parser.add_option("--bar", a.bisection.bar, "error above which --bisect considers an operation wrong")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    parser.add_flag("--gpu-kernels", a.gpu_kernels, "use the kernels of GPUs, if the device is a CPU");
    parser.add_option("--disable", a.overrides.disable, "do not use this capability of the device")
        ->allow_extra_args(false)
        ->group("Lower limits");
    parser
        .add_option("--shared-memory", a.overrides.shared_memory_bytes, "limit of shared memory per workgroup in bytes")
        ->group("Lower limits");
    parser.add_option("--invocations", a.overrides.max_workgroup_invocations, "limit of invocations per workgroup")
        ->group("Lower limits");
    parser.add_option("--allocation", a.overrides.max_allocation_bytes, "limit of one memory allocation in bytes")
        ->group("Lower limits");
    parser.add_flag("--gpu-assisted", a.gpu_assisted,
                    "use GPU-assisted validation, which finds addresses out of bounds (slow)");
}

} // namespace hekla::app
