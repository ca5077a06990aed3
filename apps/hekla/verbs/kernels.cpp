// Compiles every pipeline and runs nothing.
#include "verbs/kernels.hpp"

#include "base/file.hpp"
#include "bench_case.hpp"
#include "composition_estimate.hpp"
#include "fixture.hpp"
#include "generate/decoder_program.hpp"
#include "gpu/compiler_report.hpp"
#include "infer/open/model_estimate.hpp"
#include "infer/open/open_model.hpp"
#include "output.hpp"
#include "program/estimate.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/training_plan.hpp"
#include "train/training_run.hpp"
#include "train/update/optimizer.hpp"
#include "training_progress.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

// ---- which kernels -------------------------------------------------------------------------------------------------

// Of one token of a case, at its longest row; with slots, of a row for each.
Result<program::Estimate> token_of(const BenchCase& c, const plugin::Composition& composition,
                                   const program::Target& target, program::Storage weights) {
    generate::DecodeBatch batch;
    batch.rows = std::max<int64_t>(1, c.slots);
    batch.length = c.context;
    batch.sources = slot_fields(c, batch.rows);
    return estimate_token(composition, target, weights, batch);
}

// Of a fixture: a step with AdamW (a pass, if nothing expects a loss), and a token of each recorded text.
Result<program::Estimate> step_of(const Fixture& fixture, const FixtureModel& model, const program::Target& target) {
    HK_ASSIGN(const graph::Graph graph, differentiated(model));
    program::Estimator estimator(target);
    HK_TRY(estimator.add_store(program::parameter_table(model.graph),
                               {.gradients = true, .moments = program::kAdamMoments}));
    const program::CompileOptions options = fixture_options(graph);
    HK_ASSIGN(const program::Lowering step, estimator.add(graph, options, 1.0));
    if (fixture.has_adamw) HK_TRY(train::Optimizer::estimate(estimator, step, case_settings(), {}));
    for (const generate::RecordedCase& recorded : fixture.generation)
        HK_TRY(generate::estimate_recorded(estimator, *model.composition, recorded));
    return estimator.finish();
}

void add_kernels(program::Estimate& to, const program::Estimate& from) {
    for (const program::KernelUse& use : from.kernels) {
        program::KernelUse& sum = program::use_of(to.kernels, use.dispatch);
        sum.dispatches += use.dispatches;
        sum.workgroups += use.workgroups;
        sum.flops += use.flops;
        sum.bytes += use.bytes;
    }
    to.command_buffers += from.command_buffers;
}

// Opens the device after everything else was found and read.
using UseDevice = std::function<Result<program::Target>()>;

Result<program::Estimate> estimate_of(const plugin::Registry& registry, const KernelsArguments& a, const Log& log,
                                      const UseDevice& use_device) {
    const program::Storage storage = storage_named(a.type);
    if (!a.bench_case.empty()) {
        const BenchCase* c = find_bench_case(a.bench_case);
        HK_ASSIGN(const auto composition, compose_case(registry, *c, log));
        HK_ASSIGN(const program::Target target, use_device());
        if (a.generate) return token_of(*c, *composition, target, storage);
        return estimate_step(
            *composition, target,
            {.rows = c->batch, .context = c->context, .adapters_only = c->lora(), .precision = storage},
            case_settings());
    }
    if (!a.fixtures.empty()) {
        std::vector<Fixture> fixtures;
        std::vector<FixtureModel> models;
        for (const std::string& folder : a.fixtures) {
            HK_ASSIGN(fixtures.emplace_back(), read_fixture(registry, folder));
            HK_ASSIGN(models.emplace_back(), describe_fixture(registry, fixtures.back(), log));
        }
        HK_ASSIGN(const program::Target target, use_device());
        program::Estimate all;
        for (std::size_t i = 0; i < fixtures.size(); ++i) {
            const auto step = step_of(fixtures[i], models[i], target);
            if (!step.ok()) return step.status().with_context(a.fixtures[i]);
            add_kernels(all, step.value());
        }
        return all;
    }
    if (!a.model.empty()) {
        infer::ModelOptions options;
        options.describe_only = true;
        options.tokenizer_required = false;
        if (a.generate) options.head = "lm";
        HK_ASSIGN(infer::Model model, infer::open_model(registry, nullptr, a.model, options, log));
        HK_ASSIGN(const program::Target target, use_device());
        program::Estimator estimator(target);
        HK_TRY(a.generate ? infer::estimate_generation(estimator, model, storage, a.rows, a.length)
                          : infer::estimate_pass(estimator, model, storage, a.rows, a.length));
        return estimator.finish();
    }
    HK_ASSIGN(const train::Recipe recipe, train::read_recipe(a.recipe, a.overrides));
    HK_ASSIGN(const program::Target target, use_device());
    HK_ASSIGN(const train::TrainingPlan plan, train::TrainingRun::plan(recipe, registry, target, log, {}));
    return plan.estimate;
}

// A way to compute a problem, for --candidates.
struct KernelCandidate {
    std::string problem, choice;
    program::KernelUse use; // one of its dispatches
};

// Returns the dispatches of each candidate of each problem, alone and without epilogues: kernels by the rules, and each
// with the other subgroup sizes.
std::vector<KernelCandidate> candidates_of(const program::Estimate& estimate, const program::Limits& limits) {
    std::vector<KernelCandidate> all;
    for (const program::KernelProblem& problem : estimate.problems) {
        const program::KernelTrial trial = problem.trial(1e18, std::numeric_limits<int64_t>::max());
        for (const program::KernelOption& option : problem.kernels) {
            std::vector<uint32_t> sizes{0};
            sizes.insert(sizes.end(), option.lanes.begin(), option.lanes.end());
            for (const uint32_t lanes : sizes) {
                program::Lowering lowering;
                lowering.limits = limits;
                lowering.trial = program::KernelChoice{option.kernel, 0, lanes};
                trial.lower(lowering);
                std::vector<program::KernelUse> uses;
                for (const program::Dispatch& dispatch : lowering.dispatches)
                    program::use_of(uses, dispatch).count(dispatch);
                for (program::KernelUse& use : uses)
                    all.push_back({problem.key, lowering.trial->text(), std::move(use)});
            }
        }
    }
    return all;
}

// ---- what the compiler reports -------------------------------------------------------------------------------------

struct CompiledKernel {
    const program::KernelUse* use = nullptr;
    const KernelCandidate* candidate = nullptr; // null: a kernel of the estimate
    Status problem;                             // of its compilation
    std::vector<gpu::CompilerReport> reports;
    gpu::KernelStatistics statistics;
};

CompiledKernel compile(program::Runtime& runtime, const program::KernelUse& use, bool texts) {
    CompiledKernel kernel;
    kernel.use = &use;
    const auto pipeline = runtime.pipeline(use.dispatch);
    if (!pipeline.ok()) {
        kernel.problem = pipeline.status();
        return kernel;
    }
    auto reports = gpu::compiler_reports(*runtime.gpu().device, *pipeline.value(), texts);
    kernel.problem = reports.status();
    if (reports.ok()) kernel.reports = reports.take();
    kernel.statistics = gpu::kernel_statistics(kernel.reports);
    return kernel;
}

// Writes a file for every form of a kernel's code: "07-matmul.tiled.t128.assembly.txt".
Status write_code(const std::filesystem::path& folder, std::size_t number, const CompiledKernel& kernel) {
    const auto file_name = [](std::string text) {
        for (char& c : text)
            if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '.';
        return text;
    };
    for (const gpu::CompilerReport& report : kernel.reports)
        for (const gpu::CompilerText& text : report.texts)
            HK_TRY(write_file_atomically(folder / fmt::format("{:02}-{}.{}.txt", number,
                                                              file_name(kernel.use->dispatch.shader),
                                                              file_name(text.name)),
                                         text.text));
    return {};
}

ordered_json json_of(const CompiledKernel& kernel) {
    const auto number = [](const std::optional<double>& value) {
        return value ? ordered_json(static_cast<int64_t>(*value)) : ordered_json();
    };
    const gpu::KernelStatistics& s = kernel.statistics;
    ordered_json j = ordered_json::object();
    if (kernel.candidate != nullptr) j = {{"problem", kernel.candidate->problem}, {"choice", kernel.candidate->choice}};
    j.update({{"kernel", kernel.use->dispatch.shader},
              {"constants", kernel.use->dispatch.constants},
              {"subgroup_size",
               kernel.reports.empty() ? kernel.use->dispatch.subgroup_size : kernel.reports.front().subgroup_size},
              {"dispatches", kernel.use->dispatches},
              {"workgroups", kernel.use->workgroups},
              {"flops", kernel.use->flops},
              {"bytes", kernel.use->bytes},
              {"registers", number(s.registers)},
              {"spills", number(s.spills)},
              {"scratch_bytes", number(s.scratch_bytes)},
              {"shared_bytes", number(s.shared_bytes)},
              {"waves", number(s.waves)},
              {"instructions", number(s.instructions)}});
    ordered_json driver = ordered_json::object();
    for (const gpu::CompilerReport& report : kernel.reports)
        for (const gpu::CompilerStatistic& one : report.statistics)
            driver[kernel.reports.size() > 1 ? report.name + ": " + one.name : one.name] = one.value;
    j["driver"] = std::move(driver);
    if (!kernel.problem.ok()) j["error"] = kernel.problem.message();
    return j;
}

std::string line_of(const CompiledKernel& kernel) {
    const auto number = [](const std::optional<double>& value) {
        return value ? fmt::format("{}", static_cast<int64_t>(*value)) : std::string("-");
    };
    const gpu::KernelStatistics& s = kernel.statistics;
    std::string line =
        fmt::format("{:>8} {:>10} {:>5} {:>6} {:>7} {:>6} {:>5} {:>7}  {}", kernel.use->dispatches,
                    kernel.use->workgroups, number(s.registers), number(s.spills), number(s.scratch_bytes),
                    number(s.shared_bytes), number(s.waves), number(s.instructions), kernel.use->dispatch.shader);
    if (!kernel.use->dispatch.constants.empty())
        line += fmt::format(" [{}]", fmt::join(kernel.use->dispatch.constants, " "));
    if (kernel.candidate != nullptr)
        line += fmt::format("  # {}: {}", kernel.candidate->problem, kernel.candidate->choice);
    if (!kernel.problem.ok()) line += ": " + kernel.problem.message();
    return line;
}

Result<int> list_kernels(const Globals& globals, const KernelsArguments& a) {
    const int given = (a.recipe.empty() ? 0 : 1) + (a.bench_case.empty() ? 0 : 1) + (a.model.empty() ? 0 : 1) +
                      (a.fixtures.empty() ? 0 : 1);
    if (given != 1)
        return invalid_argument("--kernels needs one of: a recipe, --case NAME, --model FOLDER, --fixture FOLDER\n"
                                "See: hekla doctor --help");
    if (a.generate && a.bench_case.empty() && a.model.empty())
        return invalid_argument("--generate is for --model and --case; other kernels are those of a training step");
    const plugin::Registry registry = scan_plugins(globals);
    std::unique_ptr<program::Runtime> runtime;
    const UseDevice use_device = [&]() -> Result<program::Target> {
        choose_vector_width();
        gpu::ContextOptions options = context_options(globals);
        options.device.compiler_reports = true;
        HK_ASSIGN(gpu::Context context, gpu::create_context(options));
        HK_ASSIGN(runtime, runtime_on(globals, std::move(context)));
        return program::target_of(*runtime);
    };
    HK_ASSIGN(const program::Estimate estimate, estimate_of(registry, a, globals.log(), use_device));
    const gpu::Capabilities& device = runtime->gpu().capabilities();
    const std::string driver = device.driver_name + " " + device.driver_info;
    if (!runtime->gpu().device->compiler_reports())
        globals.log().info(fmt::format("{} reports nothing about its pipelines (it lacks "
                                       "VK_KHR_pipeline_executable_properties); they are only compiled",
                                       driver));
    if (!a.isa.empty()) {
        std::error_code problem;
        std::filesystem::create_directories(a.isa, problem);
        if (problem) return io_error(fmt::format("{}: cannot be created: {}", a.isa, problem.message()));
    }

    ordered_json kernels = ordered_json::array();
    std::size_t failed = 0, number = 0;
    const bool terminal = Progress::is_terminal();
    if (!a.json)
        fmt::print("{} ({})\ndispatches workgroups  regs spills scratch shared waves instrs  kernel [constants]\n",
                   device.device_name, driver);
    const std::vector<KernelCandidate> candidates =
        a.candidates ? candidates_of(estimate, runtime->limits()) : std::vector<KernelCandidate>();
    const std::size_t count = a.candidates ? candidates.size() : estimate.kernels.size();
    for (std::size_t i = 0; i < count; ++i) {
        ++number;
        if (terminal) fmt::print(stderr, "\r\x1b[Kcompiling {} of {}", number, count);
        const KernelCandidate* candidate = a.candidates ? &candidates[i] : nullptr;
        CompiledKernel kernel =
            compile(*runtime, candidate != nullptr ? candidate->use : estimate.kernels[i], !a.isa.empty());
        kernel.candidate = candidate;
        if (terminal) fmt::print(stderr, "\r\x1b[K");
        if (!kernel.problem.ok()) ++failed;
        if (!a.isa.empty()) HK_TRY(write_code(a.isa, number, kernel));
        if (a.json)
            kernels.push_back(json_of(kernel));
        else
            fmt::print("{}\n", line_of(kernel));
    }
    if (a.json)
        fmt::print("{}\n", json_line({{"device", device.device_name},
                                      {"driver", driver},
                                      {"command_buffers", estimate.command_buffers},
                                      {"kernels", kernels}}));
    HK_TRY(runtime->save_caches());
    HK_TRY(flush_output());
    if (failed > 0)
        return internal_error(fmt::format("{} of {} kernels were not compiled by {}", failed, count, driver));
    return kDone;
}

} // namespace

int run_kernels(const Globals& globals, const KernelsArguments& a) { return finish(list_kernels(globals, a)); }

void add_kernels_options(CLI::App& parser, KernelsArguments& a) {
    parser.add_option("--case", a.bench_case, "a model of `hekla bench` in place of a recipe")
        ->check(CLI::IsMember(bench_case_names()));
    parser.add_option("--model", a.model, "a model folder or exported file: the kernels of a pass");
    parser.add_option("--fixture", a.fixtures,
                      "folders of --test: the kernels of one AdamW step and of generated tokens of each, together");
    parser.add_flag("--generate", a.generate, "with --model and --case: the kernels of a generated token");
    parser.add_option("--rows", a.rows, "with --model: rows of the batch")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    parser.add_option("--length", a.length, "with --model: tokens of a row")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    parser.add_flag("--candidates", a.candidates,
                    "the kernels that each matrix product and attention could use, alone, in place of those chosen");
    parser.add_option("--isa", a.isa, "write the code of every kernel, as the driver prints it, into this folder");
}

} // namespace hekla::app
