// hekla prune: lottery tickets by iterative magnitude pruning (Frankle and Carbin 2018, arXiv 1803.03635; rewinding to
// a later step: Frankle and others 2019, arXiv 1903.01611). Each training is one of hekla.h, in a folder of its own.
#include "command.hpp"
#include "seeds.hpp"
#include "ticket_report.hpp"
#include "training_progress.hpp"

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/interrupts.hpp"
#include "base/number_text.hpp"
#include "base/path_text.hpp"
#include "model/folder.hpp"
#include "plugin/composition/model_names.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/resume_check.hpp"
#include "train/run/run_folder.hpp"
#include "train/training_run.hpp"
#include "train/update/prune_weights.hpp"

#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using train::WeightMask;

constexpr const char* kResult = "ticket.json"; // in the folder of a finished training

struct PruneArguments {
    std::string recipe;
    std::vector<std::string> overrides;
    int64_t rounds = 0; // 0: those of the recipe
    int64_t seeds = 0;  // 0: one, in the recipe's own folder
    bool controls = false;
    bool json = false;
};

std::string assignment(const char* key, const std::string& value) {
    return fmt::format("{}={}", key, nlohmann::json(value).dump());
}

// Returns the error of a recipe that cannot be pruned.
Status check(const train::Recipe& recipe, const PruneArguments& a) {
    if (recipe.train.eval_steps == 0)
        return invalid_argument(
            fmt::format("{}: train.eval_steps = 0: the rounds are compared by their evaluations: set "
                        "it above 0",
                        a.recipe));
    if (train::has_adapters(recipe))
        return invalid_argument(
            fmt::format("{}: hekla prune cannot be used with adapters, which leave the network's own "
                        "weights unchanged: remove [adapter], [adapters] and [combine]",
                        a.recipe));
    if (!recipe.prune.weights_from.empty())
        return invalid_argument(fmt::format("{}: prune.weights_from = \"{}\" is set by `hekla prune` for each round: "
                                            "remove it",
                                            a.recipe, recipe.prune.weights_from));
    return {};
}

// Returns an error if the folder has rounds of another recipe; warns of other changes.
Status check_same(const fs::path& folder, const train::Recipe& recipe, const Log& log) {
    const fs::path file = folder / "recipe.toml";
    std::error_code problem;
    if (!fs::exists(file, problem)) return {};
    HK_ASSIGN(const std::string text, read_file(file));
    HK_ASSIGN(const train::Recipe before, train::parse_resolved_recipe(text, file.string()));
    HK_TRY(train::check_resume(before, recipe, folder.string(), true, log));
    // Finished rounds are not repeated, so the others must be as long.
    if (before.train.max_steps != recipe.train.max_steps ||
        before.train.num_train_epochs != recipe.train.num_train_epochs)
        return failed_precondition(
            fmt::format("{}: has rounds of {} steps ({} epochs), this recipe has {} ({}): choose "
                        "another [output] dir, or put the old value back",
                        folder.string(), before.train.max_steps, before.train.num_train_epochs, recipe.train.max_steps,
                        recipe.train.num_train_epochs));
    return {};
}

// The rounds of one seed, each in a folder.
class Rounds {
public:
    // dense: every weight that may be pruned. All must outlive this.
    Rounds(hk_context context, const HostError& error, const PruneArguments& a, const train::Recipe& recipe,
           const plugin::Registry& registry, const WeightMask& dense, SeedRun run, TicketReport& report)
        : context_(context), error_(error), a_(a), recipe_(recipe), registry_(registry), dense_(dense),
          run_(std::move(run)), report_(report) {}

    fs::path folder(int64_t round, TicketKind kind = TicketKind::ticket) const {
        std::string name = fmt::format("round-{:02}", round);
        if (kind == TicketKind::random_mask) name += "-random-mask";
        if (kind == TicketKind::random_init) name += "-random-init";
        return path_of(run_.folder) / name;
    }

    // Trains all rounds that are not finished. Returns kDone, or what a training returned.
    int run() {
        for (int64_t round = 0; round <= recipe_.prune.rounds; ++round)
            if (const int code = train(round, TicketKind::ticket); code != kDone) return code;
        for (int64_t round = 1; a_.controls && round <= recipe_.prune.rounds; ++round)
            for (const TicketKind kind : {TicketKind::random_mask, TicketKind::random_init})
                if (const int code = train(round, kind); code != kDone) return code;
        return kDone;
    }

private:
    // Returns a trained model's weights by its parameters' names.
    Result<model::Weights> weights_of(const fs::path& trained) const {
        HK_ASSIGN(const model::ModelFolder opened, model::ModelFolder::open(trained));
        HK_ASSIGN(model::Weights weights, model::Weights::open(trained));
        const Result<plugin::Registry::Entry> architecture = registry_.find_model_type(opened.model_type());
        if (architecture.ok()) HK_TRY(weights.stack(plugin::model_rules(architecture->provided->names).stacks));
        return weights;
    }

    // Returns the mask of a round, which is made once and kept in the round's folder.
    Result<WeightMask> mask(int64_t round, TicketKind kind) const {
        if (round == 0) return dense_;
        const fs::path file = folder(round, kind) / train::kMaskFile;
        std::error_code problem;
        if (fs::exists(file, problem)) return WeightMask::read(file);
        HK_ASSIGN(WeightMask made, mask(kind == TicketKind::ticket ? round - 1 : round, TicketKind::ticket));
        if (kind == TicketKind::ticket) {
            HK_ASSIGN(const model::Weights trained, weights_of(folder(round - 1)));
            HK_ASSIGN(made, train::pruned_further(made, trained, recipe_, round));
        } else if (kind == TicketKind::random_mask) {
            made = train::shuffled(made, hash64(file.filename().string(), static_cast<uint64_t>(run_.seed + round)));
        }
        fs::create_directories(file.parent_path(), problem);
        if (problem)
            return io_error(fmt::format("{}: the folder of a round cannot be made: {}: choose another [output] dir",
                                        file.parent_path().string(), problem.message()));
        HK_TRY(made.write(file));
        return made;
    }

    // Returns the overrides of a round's recipe, with which `hekla train` would train the same.
    std::vector<std::string> overrides(int64_t round, TicketKind kind) const {
        const train::PruneSection& p = recipe_.prune;
        std::vector<std::string> all = run_.overrides;
        all.push_back(assignment("output.dir", folder(round, kind).string()));
        if (recipe_.data.cache.empty())
            all.push_back(assignment("data.cache", (path_of(recipe_.output.dir) / "cache").string()));
        if (round == 0) return all;
        all.push_back(assignment("prune.from_mask", (folder(round, kind) / train::kMaskFile).string()));
        const std::string rewound = p.rewind_step > 0 ? folder(0).string() : "";
        std::string start = p.reinitialize, from = rewound;
        if (kind == TicketKind::random_mask) start = "rewind";
        if (kind == TicketKind::random_init) start = "random";
        if (start == "none") from = folder(round - 1).string();
        if (start == "random") {
            from.clear();
            all.emplace_back("prune.rewind_step=0");
        }
        all.push_back(assignment("prune.reinitialize", start));
        all.push_back(assignment("prune.weights_from", from));
        return all;
    }

    // Trains one round, unless it is finished, and adds its result.
    int train(int64_t round, TicketKind kind) {
        const fs::path dir = folder(round, kind);
        std::error_code problem;
        if (fs::exists(dir / kResult, problem)) {
            const Result<std::string> text = read_file(dir / kResult);
            if (!text.ok()) return fail(text.status());
            const Result<TicketResult> result = ticket_result(text.value(), (dir / kResult).string());
            if (!result.ok()) return fail(result.status());
            report_.add(result.value());
            return kDone;
        }
        const Result<WeightMask> mask = this->mask(round, kind);
        if (!mask.ok()) return fail(mask.status());
        Progress progress;
        progress.logging_steps = recipe_.train.logging_steps;
        progress.line(fmt::format("round {} of {}: {} of the weights, {}", round, recipe_.prune.rounds,
                                  percent_text(mask->share()), dir.string()));
        const std::vector<std::string> changed = overrides(round, kind);
        const std::vector<hk_string> given = host_strings(changed);
        const hk_train_options options = training_options(a_.recipe, given, progress);
        hk_train_result trained{};
        if (const int code = train_once(context_, error_, options, progress, trained); code != kDone) return code;
        if (trained.stopped != 0) {
            progress.line(fmt::format("stopped in round {}; the same command resumes", round));
            return stopped_status();
        }
        const Result<TicketResult> result = result_of(round, kind, mask.value(), trained);
        if (!result.ok()) return fail(result.status());
        if (const Status written = write_file_atomically(dir / kResult, result->json().dump(1) + "\n"); !written.ok())
            return fail(written);
        progress.line(fmt::format("round {}: {} of the weights, validation loss {:.4f}", round,
                                  percent_text(mask->share()), result->loss));
        report_.add(result.value());
        return kDone;
    }

    Result<TicketResult> result_of(int64_t round, TicketKind kind, const WeightMask& mask,
                                   const hk_train_result& trained) const {
        HK_ASSIGN(const Scores scores,
                  logged_scores(folder(round, kind).string(), recipe_.train.load_best_model_at_end));
        TicketResult result{.kind = kind,
                            .seed = run_.seed,
                            .round = round,
                            .kept = mask.kept(),
                            .weights = mask.weights(),
                            .best = trained.best_evaluation,
                            .best_step = trained.best_step,
                            .steps = trained.steps};
        for (const auto& [name, value] : scores)
            if (name == "loss") result.loss = value;
        return result;
    }

    hk_context context_;
    const HostError& error_;
    const PruneArguments& a_;
    const train::Recipe& recipe_;
    const plugin::Registry& registry_;
    const WeightMask& dense_;
    SeedRun run_;
    TicketReport& report_;
};

Status write_report(const TicketReport& report, const train::Recipe& recipe) {
    const fs::path folder = recipe.output.dir;
    const std::string title = fmt::format("Lottery tickets: {}", folder.string());
    HK_TRY(write_file_atomically(folder / "tickets.svg", report.svg(title)));
    HK_TRY(write_file_atomically(folder / "tickets.json", report.json().dump(1) + "\n"));
    return write_file_atomically(folder / "tickets.html", report.page(title, train::write_recipe(recipe)));
}

int run_prune(const Globals& globals, const PruneArguments& a) {
    const Result<train::Recipe> read = train::read_recipe(a.recipe, a.overrides);
    if (!read.ok()) return fail(read.status());
    const train::Recipe& recipe = read.value();
    if (const Status checked = check(recipe, a); !checked.ok()) return fail(checked);
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    watch_interrupts(kStoppedEarly);

    std::vector<SeedRun> runs{{recipe.train.seed, recipe.output.dir, a.overrides}};
    if (a.seeds > 0) {
        Result<std::vector<SeedRun>> seeds = seed_runs(a.recipe, a.overrides, a.seeds);
        if (!seeds.ok()) return fail(seeds.status());
        runs = seeds.take();
    }
    Result<train::RunFolder> folder = train::RunFolder::own(recipe.output.dir);
    if (!folder.ok()) return fail(folder.status());
    if (const Status same = check_same(recipe.output.dir, recipe, globals.log()); !same.ok()) return fail(same);

    train::Recipe first = recipe; // of the first run, whose tokenizer is used if it has one
    first.output.dir = (path_of(runs[0].folder) / "round-00").string();
    const plugin::Registry registry = scan_plugins(globals);
    train::TrainerEvents events;
    events.stop = [] { return interrupted(); };
    const Result<WeightMask> dense = train::TrainingRun::prunable(first, registry, globals.log(), events);
    if (!dense.ok()) return fail(dense.status());
    if (const Status written =
            write_file_atomically(path_of(recipe.output.dir) / "recipe.toml", train::write_recipe(recipe));
        !written.ok())
        return fail(written);

    TicketReport report;
    for (const SeedRun& run : runs) {
        Rounds rounds(context.context, error, a, recipe, registry, dense.value(), run, report);
        const int code = rounds.run();
        // A training that could not start has left nothing.
        std::error_code problem;
        if (fs::exists(rounds.folder(0), problem)) folder->keep();
        if (code == kDone || fs::exists(rounds.folder(0) / kResult, problem))
            if (const Status written = write_report(report, recipe); !written.ok()) return fail(written);
        if (code != kDone) return code;
    }
    std::printf("%s", a.json ? (report.json().dump() + "\n").c_str() : report.table().c_str());
    return kDone;
}

} // namespace

void add_prune(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "prune",
        "Find lottery tickets: train, prune the smallest weights, rewind the others, train again, several times.");
    const auto arguments = std::make_shared<PruneArguments>();
    parser->add_option("recipe", arguments->recipe, "recipe file (TOML), or the folder of a run")->required();
    parser->add_option("overrides", arguments->overrides, "recipe keys to override: prune.amount=0.3");
    parser->add_option("--rounds", arguments->rounds, "rounds after the first training, as prune.rounds")
        ->check(CLI::Range(1, 1000));
    parser
        ->add_option("--seeds", arguments->seeds,
                     "repeat with N consecutive seeds, each in its own folder; reports means and standard deviations")
        ->check(CLI::Range(1, 1000));
    parser->add_flag("--controls", arguments->controls,
                     "also train, for each round, as many weights chosen at random, and the same weights with new "
                     "random values");
    parser->add_flag("--json", arguments->json, "print the results as JSON");
    parser->footer("Each training has its own folder in [output] dir, which `hekla eval` and `hekla generate` open:\n"
                   "round-00 (all weights), round-01, ..., and round-01-random-mask, round-01-random-init with\n"
                   "--controls. A pruned weight is 0 in model.safetensors and in mask.safetensors of its folder.\n"
                   "tickets.svg, tickets.html and tickets.json compare the rounds.\n"
                   "\n"
                   "Ctrl+C, SIGTERM and SIGHUP save a checkpoint and exit with 128 + the signal's number; the same\n"
                   "command resumes. Finished rounds are not repeated.\n"
                   "\n"
                   "Example: hekla prune recipe.toml train.max_steps=200 --rounds 2");
    verbs.push_back({parser, [&globals, arguments] {
                         if (arguments->rounds > 0)
                             arguments->overrides.push_back(fmt::format("prune.rounds={}", arguments->rounds));
                         return run_prune(globals, *arguments);
                     }});
}

} // namespace hekla::app
