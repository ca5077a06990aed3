#include "verbs/verify.hpp"

#include "program/lowering/optimizer_state.hpp"

#include "bench_case.hpp"
#include "comparison.hpp"
#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "program/host_tensor.hpp"
#include "program/lowering/optimizer.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/update/optimizer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>

namespace hekla::app {
namespace {

// Returns the scale of the graph's gradients, weight / count, by the name of the step scalar. Counts depend on fields
// alone.
Result<std::map<std::string, double>> loss_scales(const Fixture& fixture, const FixtureModel& model) {
    graph::Feeds feeds;
    feeds.fields = fixture.inputs;
    std::vector<graph::ValueId> counts;
    for (const graph::LossTerm& term : model.graph.losses) counts.push_back(term.count);
    HK_ASSIGN(const std::vector<graph::Tensor> counted, graph::evaluate(model.graph, feeds, counts));
    std::map<std::string, double> scales;
    for (std::size_t i = 0; i < counted.size(); ++i)
        scales[fmt::format("loss_scale.{}", i)] =
            counted[i].data[0] > 0.0 ? model.graph.losses[i].weight / counted[i].data[0] : 0.0;
    return scales;
}

graph::Tensor widened(const graph::Shape& shape, std::span<const float> values, double scale = 1.0) {
    graph::Tensor tensor{graph::Kind::float32, shape, {values.begin(), values.end()}};
    for (double& value : tensor.data) value /= scale;
    return tensor;
}

bool all_finite(const Tensors& tensors) {
    return std::ranges::all_of(tensors, [](const auto& named) {
        return std::ranges::all_of(named.second.data, [](double x) { return std::isfinite(x); });
    });
}

Status upload(program::ParameterStore& store, const Tensors& parameters) {
    for (const auto& [name, tensor] : parameters) {
        const std::vector<float> values(tensor.data.begin(), tensor.data.end());
        HK_TRY(store.upload(name, values));
    }
    return {};
}

// Uses the device as the engine. precision: as in training, with a loss scale for float16.
Result<Computed> compute_on_device(program::Runtime& runtime, const Fixture& fixture, const FixtureModel& model,
                                   program::Storage precision) {
    HK_ASSIGN(const graph::Graph graph, differentiated(model));
    HK_ASSIGN(const auto store, program::ParameterStore::create(
                                    runtime, program::parameter_table(model.graph),
                                    {.gradients = true, .moments = program::kAdamMoments, .frozen = model.frozen}));
    HK_TRY(upload(*store, model.parameters));
    program::CompileOptions options = fixture_options(graph);
    options.precision = precision;
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, *store, options));

    HK_ASSIGN(const auto scales, loss_scales(fixture, model));
    for (const auto& [name, tensor] : fixture.inputs)
        if (program->has_input(name)) HK_TRY(program->set_input(name, program::bytes_of(tensor)));
    const auto run = [&](double loss_scale) -> Status {
        for (const auto& [name, scale] : scales)
            if (program->has_scalar(name)) HK_TRY(program->set_scalar(name, static_cast<float>(scale * loss_scale)));
        return program->run();
    };
    const auto compute = [&](double loss_scale) -> Result<Tensors> {
        HK_TRY(run(loss_scale));
        Tensors computed;
        for (const std::string& name : options.outputs) {
            HK_ASSIGN(const program::HostTensor output, program->read_output(name));
            computed.emplace(name, widened(output.shape, output.floats(), name == "loss" ? loss_scale : 1.0));
        }
        for (const std::string& name : program->gradient_names()) {
            HK_ASSIGN(const ResourceArray<float> values, store->download(name, program::StoreArena::gradients));
            computed.emplace("grad." + name, widened(store->find(name)->shape, values, loss_scale));
        }
        return computed;
    };
    Computed computed;
    double first_scale = precision == program::Storage::f16 ? double{program::kFirstLossScale} : 1.0;
    HK_ASSIGN(computed.first, compute(first_scale));
    while (!all_finite(computed.first) && first_scale > 1.0) {
        first_scale /= 2.0;
        HK_ASSIGN(computed.first, compute(first_scale));
    }
    if (!fixture.has_adamw) return computed;

    train::TrainSection settings;
    settings.adam_beta1 = fixture.adamw.beta1;
    settings.adam_beta2 = fixture.adamw.beta2;
    settings.adam_epsilon = fixture.adamw.epsilon;
    settings.weight_decay = fixture.adamw.weight_decay;
    settings.max_grad_norm = fixture.adamw.clip_norm;
    settings.fp16 = precision == program::Storage::f16;
    HK_ASSIGN(const auto optimizer, train::Optimizer::create(runtime, *store, settings, program->gradient_names(), {}));
    while (std::ssize(computed.losses) < fixture.adamw.steps) {
        HK_ASSIGN(const double scale, optimizer->loss_scale());
        HK_TRY(run(scale));
        HK_ASSIGN(const float loss, program->read_scalar_output("loss"));
        HK_ASSIGN(const train::StepOutcome outcome, optimizer->step(fixture.adamw.learning_rate));
        if (!outcome.skipped)
            computed.losses.push_back(static_cast<double>(loss) / scale);
        else if (scale <= 1.0)
            return internal_error("an AdamW step was skipped: its loss or gradient was not finite");
    }
    for (const program::ParameterEntry& entry : store->table()) {
        HK_ASSIGN(const ResourceArray<float> values, store->download(entry.name));
        computed.stepped.emplace(entry.name, widened(entry.shape, values));
    }
    return computed;
}

Status verify_folder(const plugin::Registry& registry, program::Runtime* runtime, const std::filesystem::path& folder,
                     const Log& log, program::Storage precision, FixtureReport& report) {
    HK_ASSIGN(const Fixture fixture, read_fixture(folder));
    HK_ASSIGN(const FixtureModel model, describe_fixture(registry, fixture, log));
    HK_TRY(compare_merged(fixture, model, report));
    if (runtime == nullptr) {
        HK_ASSIGN(const Computed computed, compute_reference(fixture, model));
        HK_TRY(compare(fixture, computed, report));
        return generate_reference(fixture, model, report);
    }
    HK_ASSIGN(const Computed computed, compute_on_device(*runtime, fixture, model, precision));
    HK_TRY(compare(fixture, computed, report));
    // Rounded scores may order tokens otherwise.
    if (fixture.generation.empty() || precision != program::Storage::f32) return {};
    HK_ASSIGN(const auto store, program::ParameterStore::create(*runtime, program::parameter_table(model.graph)));
    HK_TRY(upload(*store, model.parameters));
    HK_ASSIGN(const std::unique_ptr<generate::Decoder> decoder,
              generate::make_program_decoder(*runtime, *store, *model.composition));
    return compare_generation(fixture, *decoder, report);
}

// Finds the first operation of the fixture's model, or of its gradient, that the device computes wrongly.
Result<Bisection> bisect_folder(const plugin::Registry& registry, program::Runtime& runtime,
                                const std::filesystem::path& folder, const Log& log, const BisectOptions& options) {
    HK_ASSIGN(const Fixture fixture, read_fixture(folder));
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
        if (!std::filesystem::exists(std::filesystem::path(folder) / "config.json", problem))
            return fail(not_found(fmt::format("{}: not a fixture folder: it has no config.json", folder)));
    const plugin::Registry registry = scan_plugins(globals);
    std::unique_ptr<program::Runtime> runtime;
    if (!a.reference) {
        Result<std::unique_ptr<program::Runtime>> made = make_runtime(globals, a);
        if (!made.ok()) return fail(made.status());
        runtime = made.take();
    }
    const Bars bars = bars_of(precision);
    std::size_t passed = 0;
    nlohmann::json reports = nlohmann::json::array();
    for (const std::string& name : a.folders) {
        const std::filesystem::path folder(name);
        FixtureReport report;
        report.fixture = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
        const auto begin = std::chrono::steady_clock::now();
        report.problem = verify_folder(registry, runtime.get(), folder, globals.log(), precision, report);
        report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        passed += report.pass(bars) ? 1 : 0;
        if (a.json)
            reports.push_back(report.json(bars));
        else
            std::printf("%s\n", report.line(bars).c_str());
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
