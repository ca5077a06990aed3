// hekla train: trains from a recipe, through hekla.h as any host would.
#include "command.hpp"
#include "fine_tuning/data_facts.hpp"
#include "fine_tuning/recipe_file.hpp"
#include "mpi_job.hpp"
#include "plan_output.hpp"
#include "ranks.hpp"
#include "seeds.hpp"
#include "training_progress.hpp"

#include "base/interrupts.hpp"
#include "gpu/device.hpp"
#include "train/recipe/recipe_file.hpp"

#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace hekla::app {
namespace {

struct TrainArguments {
    std::string recipe;
    std::vector<std::string> overrides;
    int64_t seeds = 0; // 0: one run, in the recipe's own folder
    bool plan = false;
    std::string plan_for; // a device to estimate for; empty: measure this one
    bool fit = false;
    bool json = false;
    std::optional<std::string> devices; // "0,2" or "all"; empty: one device
    std::vector<std::string> taps;      // patterns of names
    std::string tap_values;             // a folder; empty: none are stored
    int64_t tap_every = 0;              // steps; 0: train.logging_steps
    std::string mpi_module;             // a file; empty: the installed one
    std::string link;                   // "25gbit,20us"; empty: as fast as it is
    int32_t ranks = 0, nodes = 0;       // of a plan; 0: one rank
    FirstRecipeOptions first;           // of a recipe that is to be written; its overrides are `overrides`
};

// first: of a recipe that was just written, before it is trained by.
int run_plan(hk_context context, const HostError& error, const TrainArguments& a, bool first = false) {
    const std::vector<hk_string> overrides = host_strings(a.overrides);
    Progress progress;
    hk_plan_options options{};
    options.mode = HK_PLAN_TRAIN;
    options.recipe = text(a.recipe);
    options.overrides = overrides.data();
    options.override_count = overrides.size();
    options.measure = !first && a.plan_for.empty() ? 1 : 0;
    options.ranks = a.ranks;
    options.nodes = a.nodes;
    if (!a.link.empty()) {
        const Result<Link> link = parse_link(a.link);
        if (!link.ok()) return fail(link.status());
        options.link_bytes_per_second = link->bytes_per_second;
        options.link_latency = link->latency;
    }
    return print_plan(context, error, options, {a.plan_for, a.json, "steps_left", [&](const std::string& line) {
                                                    if (!first) progress.line(line); // the training tells the same
                                                }});
}

// Trains one run per seed, and prints their scores together.
int run_seeds(hk_context context, const HostError& error, const TrainArguments& a) {
    const Result<std::vector<SeedRun>> runs = seed_runs(a.recipe, a.overrides, a.seeds);
    if (!runs.ok()) return fail(runs.status());
    const Result<train::Recipe> recipe = train::read_recipe(a.recipe, a.overrides);
    if (!recipe.ok()) return fail(recipe.status());
    if (recipe->train.eval_steps == 0)
        return fail(
            invalid_argument(fmt::format("{}: train.eval_steps = 0: --seeds compares the runs' evaluations: set it "
                                         "above 0",
                                         a.recipe)));
    watch_interrupts(kStoppedEarly);
    SeedScores all;
    for (const SeedRun& run : runs.value()) {
        Progress progress;
        progress.logging_steps = recipe->train.logging_steps;
        progress.line(fmt::format("seed {}: {}", run.seed, run.folder));
        const std::vector<hk_string> overrides = host_strings(run.overrides);
        const hk_train_options options = training_options(a.recipe, overrides, progress);
        hk_train_result result{};
        if (const int code = train_once(context, error, options, progress, result); code != kDone) return code;
        if (result.stopped != 0) {
            progress.line(fmt::format("stopped in seed {}; the same command resumes", run.seed));
            return stopped_status();
        }
        Result<Scores> scores = logged_scores(run.folder, recipe->train.load_best_model_at_end);
        if (!scores.ok()) return fail(scores.status());
        all.add(run.seed, scores.take());
    }
    std::printf("%s", a.json ? (all.json().dump() + "\n").c_str() : all.table().c_str());
    return kDone;
}

// Sets the keys of [tap] that the options mean.
void add_tap_overrides(TrainArguments& a) {
    if (a.taps.empty()) return;
    a.overrides.push_back("tap.names=" + nlohmann::json(a.taps).dump());
    if (!a.tap_values.empty()) a.overrides.push_back("tap.values=" + nlohmann::json(a.tap_values).dump());
    if (a.tap_every > 0) a.overrides.push_back(fmt::format("tap.every={}", a.tap_every));
}

// Prints how a training ended, and returns the exit status.
int report_end(const TrainArguments& a, const hk_train_result& result, Progress& progress) {
    if (result.stopped != 0)
        progress.line(result.steps == 0 ? "stopped before the first step"
                                        : fmt::format("stopped after step {}; the same command resumes", result.steps));
    else
        progress.line(std::isnan(result.best_evaluation)
                          ? fmt::format("done: {} steps", result.steps)
                          : fmt::format("done: {} steps, best evaluation {:.4f} at step {}", result.steps,
                                        result.best_evaluation, result.best_step));
    if (a.json) {
        nlohmann::json j{{"steps", result.steps},
                         {"best_evaluation", result.best_evaluation},
                         {"best_step", result.best_step},
                         {"stopped", result.stopped != 0}};
        std::printf("%s\n", j.dump().c_str());
    }
    return result.stopped != 0 ? stopped_status() : kDone;
}

// The devices of this process of an MPI job: one; with --devices, its part of those where there are more of them than
// processes on this machine.
Result<std::vector<std::string>> devices_of(const Globals& globals, const TrainArguments& a, const MpiJob& job) {
    if (!globals.device.empty() && !a.devices) return std::vector<std::string>{globals.device};
    HK_ASSIGN(const std::vector<std::string> all, named_devices(globals, a.devices.value_or("all")));
    const auto own = static_cast<std::size_t>(job.local_process());
    const auto processes = static_cast<std::size_t>(job.local_processes());
    std::vector<std::string> devices{all[own % all.size()]};
    if (a.devices)
        for (std::size_t next = own + processes; next < all.size(); next += processes) devices.push_back(all[next]);
    return devices;
}

// Trains as a process of an MPI job, with a rank for each of its devices. Only rank 0 reports.
int run_process(const Globals& globals, const TrainArguments& a, const train::Recipe& recipe) {
    Result<std::unique_ptr<MpiJob>> joined = MpiJob::join(recipe.distributed.timeout, a.mpi_module);
    if (!joined.ok()) MpiJob::not_joined(joined.status(), globals.log());
    MpiJob& job = *joined.value();
    const Result<std::vector<std::string>> devices = devices_of(globals, a, job);
    if (!devices.ok()) return job.fail(devices.status());
    if (const Status connected = job.connect(devices->size()); !connected.ok()) return job.fail(connected);
    if (!job.leads()) leave_interrupts_to_another(); // a launcher passes a signal on to all: rank 0 stops the training
    std::vector<const hk_communicator*> communicators;
    for (const hk_communicator& one : job.communicators()) communicators.push_back(&one);
    Progress progress;
    progress.logging_steps = recipe.train.logging_steps;
    const std::vector<hk_string> overrides = host_strings(a.overrides);
    const hk_train_options options = training_options(a.recipe, overrides, progress);
    hk_train_result result{};
    const int code = train_ranks(globals, devices.value(), communicators, options, progress, result);
    if (code != kDone) return job.fail(code);
    return job.leads() ? report_end(a, result, progress) : kDone;
}

// Writes the recipe of --model and --data, and makes it the recipe that is trained by. true: it is new.
Result<bool> write_first_recipe(const Globals& globals, TrainArguments& a) {
    if (MpiJob::launched() > 1)
        return unsupported("--model: several processes would write one recipe; write it by --plan in one process, and "
                           "train by it");
    a.first.overrides = a.overrides;
    if (!a.recipe.empty()) a.first.overrides.insert(a.first.overrides.begin(), a.recipe);
    if (a.devices) {
        HK_ASSIGN(const std::vector<std::string> devices, named_devices(globals, *a.devices));
        a.first.ranks = std::ssize(devices);
    }
    if (a.first.file.empty()) a.first.file = default_recipe_file(a.first);
    watch_interrupts(kStoppedEarly);
    Progress progress;
    HK_ASSIGN(const RecipeFile file,
              provide_recipe(globals, a.first, [&](const std::string& line) { progress.line(line); }));
    forget_interrupts();
    a.recipe = a.first.file;
    a.overrides.clear();
    return file == RecipeFile::written;
}

int run_train(const Globals& globals, TrainArguments& a) {
    bool planned = false;
    if (!a.first.model.empty()) {
        const Result<bool> written = write_first_recipe(globals, a);
        if (!written.ok()) return fail(written.status());
        planned = written.value() && !a.json;
    }
    add_tap_overrides(a);
    const HostError error;
    HostContext context;
    const bool described = !a.plan_for.empty();
    if (const int code = context.create(globals, error, described ? HK_DEVICE_NONE : HK_DEVICE_ON_DEMAND);
        code != kDone)
        return code;
    if (a.plan || described) return run_plan(context.context, error, a);
    if (planned)
        if (const int code = run_plan(context.context, error, a, true); code != kDone) return code;
    std::fflush(stdout); // before the messages of the training
    if (a.seeds > 0) return run_seeds(context.context, error, a);
    const Result<train::Recipe> recipe = train::read_recipe(a.recipe, a.overrides);
    if (!recipe.ok()) return fail(recipe.status());
    const bool of_a_job = MpiJob::launched() > 1;
    watch_interrupts(of_a_job ? nullptr : kStoppedEarly); // a launcher names the process of the job that ended first
    if (of_a_job) return run_process(globals, a, recipe.value());
    if (recipe->tokenizer.kind != "from") // training a tokenizer takes long: a machine without a driver is told before
        if (const auto listed = gpu::Device::list(context_options(globals).device); !listed.ok())
            return fail(listed.status());
    Progress progress;
    progress.logging_steps = recipe->train.logging_steps;
    const std::vector<hk_string> overrides = host_strings(a.overrides);
    const hk_train_options options = training_options(a.recipe, overrides, progress);
    hk_train_result result{};
    int code = kDone;
    if (!a.devices) {
        code = train_once(context.context, error, options, progress, result);
    } else {
        const Result<std::vector<std::string>> devices = named_devices(globals, *a.devices);
        if (!devices.ok()) return fail(devices.status());
        std::optional<Link> link;
        if (!a.link.empty()) {
            const Result<Link> parsed = parse_link(a.link);
            if (!parsed.ok()) return fail(parsed.status());
            link = parsed.value();
        }
        code = train_on(globals, devices.value(), link, options, progress, result);
    }
    return code != kDone ? code : report_end(a, result, progress);
}

void add_first_recipe_options(CLI::App& parser, TrainArguments& a) {
    const char* const kGroup = "Without a recipe";
    CLI::Option* const model =
        parser
            .add_option("--model", a.first.model,
                        "folder of a model to fine-tune: looks at it, at --data and at this device, writes a commented "
                        "recipe (-o), prints its plan, and trains by it")
            ->group(kGroup);
    CLI::Option* const data =
        parser
            .add_option("--data", a.first.data,
                        "with --model: file or folder of JSON lines, JSON, CSV, TSV or plain text (may be repeated)")
            ->allow_extra_args(false)
            ->needs(model)
            ->group(kGroup);
    model->needs(data);
    parser.add_option("--task", a.first.task, "with --model: what is learned; default: by the rows of the data")
        ->check(CLI::IsMember(task_names()))
        ->needs(model)
        ->group(kGroup);
    parser.add_option("-o,--output", a.first.file, "with --model: the recipe to write; default: out/MODEL-DATA.toml")
        ->needs(model)
        ->group(kGroup);
}

} // namespace

void add_train(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "train", "Train a model from a recipe. A run that was stopped continues from its newest checkpoint.");
    const auto arguments = std::make_shared<TrainArguments>();
    parser->add_option("recipe", arguments->recipe, "recipe file (TOML), or the folder of a run; not with --model");
    parser->add_option("overrides", arguments->overrides,
                       "recipe keys to override: train.max_steps=100; without a VALUE the recipe's key is removed");
    add_first_recipe_options(*parser, *arguments);
    parser
        ->add_option("--seeds", arguments->seeds,
                     "train N runs with consecutive seeds, each in its own folder; prints mean and standard deviation "
                     "of their scores")
        ->check(CLI::Range(1, 1000));
    parser
        ->add_option(
            "--devices", arguments->devices,
            "train on several devices, one rank each: their numbers in `hekla doctor --list`, like 0,2, or all; under "
            "mpirun or srun they are divided among the processes of a machine")
        ->excludes(parser->get_option("--seeds"));
    parser->add_option("--link", arguments->link,
                       "rate and latency of a link, like 1gbit,50us: with --devices, exchanges are as slow as over it; "
                       "with --plan, their time is estimated");
    parser->add_option("--ranks", arguments->ranks, "with --plan or --plan-for: ranks that divide the training")
        ->check(CLI::Range(1, 1 << 16));
    parser->add_option("--nodes", arguments->nodes, "with --ranks: machines, each with a --link")
        ->check(CLI::Range(1, 1 << 16));
    parser->add_option("--mpi-module", arguments->mpi_module,
                       "libhekla_mpi.so to use instead of the installed one, where mpirun or srun has started several "
                       "processes");
    parser->add_flag("--json", arguments->json, "print the result as JSON");
    parser
        ->add_flag("--fit", arguments->fit,
                   "choose the largest micro-batch that fits in device memory, with the same examples per step; "
                   "recompute activations if nothing else fits")
        ->excludes(parser->get_option("--model"));
    parser->add_flag("--plan", arguments->plan,
                     "print estimated memory, time and the most expensive operations, then exit");
    parser->add_option("--plan-for", arguments->plan_for, "as --plan, for a kind of device that need not be present")
        ->check(CLI::IsMember(kPlannedDevices))
        ->excludes(parser->get_option("--model"));
    parser
        ->add_option("--tap", arguments->taps,
                     "show the statistics of a value that the network names with tap(), in the log and in lines of "
                     "progress (may be repeated; may have *)")
        ->allow_extra_args(false);
    CLI::Option* const values =
        parser
            ->add_option("--tap-values", arguments->tap_values, "with --tap: store the values in files in this folder")
            ->needs(parser->get_option("--tap"));
    parser->add_option("--tap-every", arguments->tap_every, "with --tap-values: steps between files")
        ->check(CLI::PositiveNumber)
        ->needs(values);
    parser->footer(
        "Progress, on a terminal the newest step, elsewhere a line with the means of train.logging_steps steps:\n"
        "loss (mean of the step; each loss in parentheses, if there are several), norm (of all gradients,\n"
        "before clipping), lr (learning rate), time of a step, tokens per second, speed in % of the fastest\n"
        "matrix product measured on this device, ETA (time left).\n"
        "\n"
        "Ctrl+C, SIGTERM and SIGHUP save a checkpoint and exit with 128 + the signal's number; the same\n"
        "command resumes. A second signal exits at once.\n"
        "\n"
        "With --model, the recipe has a comment for each choice; by itself it trains the same run, bit for bit.\n"
        "The same command resumes. Its results are in the folder of the recipe's name without .toml.\n"
        "\n"
        "Example: hekla train recipe.toml train.max_steps=200\n"
        "Example: hekla train --model SmolLM2-135M-Instruct --data conversations.jsonl -o out/tuned.toml");
    parser->callback([arguments] {
        const bool has_recipe = !arguments->recipe.empty(), has_model = !arguments->first.model.empty();
        if (!has_recipe && !has_model) throw CLI::RequiredError("recipe");
        if (has_model && has_recipe && arguments->recipe.find('=') == std::string::npos)
            throw CLI::ValidationError("--model", "a recipe is given too (" + arguments->recipe +
                                                      "): --model writes one; leave one of them out");
    });
    verbs.push_back({parser, [&globals, arguments] {
                         if (arguments->fit) arguments->overrides.emplace_back("train.fit=true");
                         return run_train(globals, *arguments);
                     }});
}

} // namespace hekla::app
