// hekla scale: scaling laws. run trains a ladder of sizes and tokens, each training one of hekla.h in a folder of its
// own; fit and predict need no device.
#include "command.hpp"
#include "scaling_ladder.hpp"
#include "scaling_report.hpp"
#include "seeds.hpp"
#include "training_progress.hpp"
#include "verbs/scale_table.hpp"

#include "base/file.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "base/number_text.hpp"
#include "base/path_text.hpp"
#include "hekla/plan.h"
#include "scaling/fit_json.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/resume_check.hpp"

#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/printf.h>
#include <nlohmann/json.hpp>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using scaling::Fit;
using scaling::Point;

constexpr const char* kPointFile = "scaling.csv"; // in the folder of a finished training

struct FitArguments {
    std::string points;
    std::vector<std::string> columns; // NAME=COLUMN
    std::string law = "all";
    bool without_embeddings = false;
    double until_flops = 0.0; // 0: no limit
    int64_t resamples = 1000;
    uint64_t seed = 1;
    std::string output; // folder; empty: that of the points
    bool json = false;
};

// Fits the laws that the arguments ask for, and writes fit.json, scaling.svg and scaling.html.
Result<ScalingReport> fit_points(const std::vector<Point>& points, const FitArguments& a, const fs::path& folder,
                                 const std::string& title) {
    ScalingReport report(points);
    std::vector<scaling::Form> forms(std::begin(scaling::kForms), std::end(scaling::kForms));
    if (const std::optional<scaling::Form> one = scaling::form_of_name(a.law)) forms = {*one};
    HK_ASSIGN(std::vector<Fit> fits, scaling::fit_all(points, forms,
                                                      {.without_embeddings = a.without_embeddings,
                                                       .resamples = a.resamples,
                                                       .seed = a.seed,
                                                       .stop = StopPoll([] { return interrupted(); })}));
    for (Fit& fit : fits) report.add(std::move(fit));
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem)
        return io_error(
            fmt::format("{}: cannot be made: {}: choose another folder with -o", folder.string(), problem.message()));
    HK_TRY(write_file_atomically(folder / "fit.json", report.json().dump(1) + "\n"));
    HK_TRY(write_file_atomically(folder / "scaling.svg", report.svg(title)));
    HK_TRY(write_file_atomically(folder / "scaling.html", report.page(title)));
    return report;
}

Result<scaling::Columns> columns_of(const std::vector<std::string>& given) {
    scaling::Columns columns;
    for (const std::string& one : given) {
        const std::size_t equal = one.find('=');
        if (equal == std::string::npos || equal == 0 || equal + 1 == one.size())
            return invalid_argument(
                fmt::format("--column {}: expected NAME=COLUMN, such as parameters=\"Model Size\"", one));
        columns[one.substr(0, equal)] = one.substr(equal + 1);
    }
    return columns;
}

int run_fit(const FitArguments& a) {
    const Result<scaling::Columns> columns = columns_of(a.columns);
    if (!columns.ok()) return fail(columns.status());
    std::error_code problem;
    const fs::path given = a.points, file = fs::is_directory(given, problem) ? given / "points.csv" : given;
    Result<std::vector<Point>> points = scaling::read_points(file.string(), columns.value());
    if (!points.ok()) return fail(points.status());
    if (a.until_flops > 0.0)
        for (Point& p : points.value()) p.held_out = p.held_out || p.known_flops() >= a.until_flops;
    watch_interrupts(kStoppedEarly);
    const fs::path folder = !a.output.empty() ? path_of(a.output) : file.has_parent_path() ? file.parent_path() : ".";
    const Result<ScalingReport> report =
        fit_points(points.value(), a, folder, fmt::format("Scaling law: {}", a.points));
    if (!report.ok()) return fail(report.status().with_context(file.string()));
    std::printf("%s", a.json ? (report->json().dump() + "\n").c_str() : report->table().c_str());
    return kDone;
}

struct PredictionArguments {
    std::string fit;
    double parameters = 0.0, tokens = 0.0, flops = 0.0;
    std::string law;
    bool without_embeddings = false;
    bool json = false;
};

Result<Fit> read_fit(const PredictionArguments& a) {
    std::error_code problem;
    const fs::path given = a.fit, file = fs::is_directory(given, problem) ? given / "fit.json" : given;
    HK_ASSIGN(const std::string text, read_file(file));
    HK_ASSIGN(const nlohmann::json all, parse_json_object(text, file.string()));
    if (!all.contains("fits") || !all["fits"].is_array() || all["fits"].empty())
        return corrupt(
            fmt::format("{}: is not a file that `hekla scale fit` wrote: it has no \"fits\"", file.string()));
    for (const nlohmann::json& one : all["fits"]) {
        HK_ASSIGN(Fit fit, scaling::fit_of_json(one, file.string()));
        if ((a.law.empty() || a.law == scaling::form_name(fit.law.form)) &&
            (!a.without_embeddings || fit.without_embeddings))
            return fit;
    }
    return not_found(fmt::format("{}: has no {} law{}: fit it first", file.string(), a.law.empty() ? "" : a.law,
                                 a.without_embeddings ? " over parameters without embeddings" : ""));
}

int run_predict(const PredictionArguments& a) {
    const Result<Fit> fit = read_fit(a);
    if (!fit.ok()) return fail(fit.status());
    scaling::Optimum at{a.parameters, a.tokens, 0.0};
    const scaling::Cost& cost = fit->cost;
    if (a.flops > 0.0 && a.parameters > 0.0) at.tokens = cost.tokens(a.parameters, a.flops);
    if (a.flops > 0.0 && a.parameters <= 0.0 && a.tokens > 0.0) {
        at.parameters = (a.flops / a.tokens - cost.fixed) / cost.per_parameter;
        if (at.parameters < 1.0)
            return fail(
                invalid_argument(fmt::format("--flops {:g} are fewer than {:g} tokens need with any model: expected "
                                             "more than {:g}",
                                             a.flops, a.tokens, cost.flops(1.0, a.tokens))));
    }
    const bool best = a.parameters <= 0.0 && a.tokens <= 0.0;
    if (best) at = scaling::optimum(fit->law, cost, a.flops);
    at.loss = fit->law.loss(at.parameters, at.tokens);
    const double flops = cost.flops(at.parameters, at.tokens);
    const bool ranged = !fit->resampled.empty();
    const scaling::Range range = ranged ? fit->loss_range(at.parameters, at.tokens) : scaling::Range{at.loss, at.loss};
    if (a.json) {
        nlohmann::ordered_json j{{"law", scaling::form_name(fit->law.form)},
                                 {"parameters", at.parameters},
                                 {"tokens", at.tokens},
                                 {"flops", flops},
                                 {"loss", at.loss}};
        j["without_embeddings"] = fit->without_embeddings;
        if (ranged) j["low"] = range.low, j["high"] = range.high;
        std::printf("%s\n", j.dump().c_str());
        return kDone;
    }
    fmt::printf("%s parameters%s, %s tokens, %.3g FLOPs%s\nloss %.4f%s\n", grouped(std::round(at.parameters)).c_str(),
                fit->without_embeddings ? " without embeddings" : "", grouped(std::round(at.tokens)).c_str(), flops,
                best ? ", the best for as many" : "", at.loss,
                ranged ? fmt::format(", with a probability of 95 % {:.4f} to {:.4f}", range.low, range.high).c_str()
                       : "");
    return kDone;
}

struct RunArguments {
    std::string ladder;
    bool targets = false;
    bool list = false;
    bool json = false;
};

// What a plan contains of a run.
struct RunSize {
    double parameters = 0.0, without_embeddings = 0.0, flops = 0.0;
    int64_t tokens_per_step = 0, tokens_of_data = 0;
};

class LadderTraining {
public:
    LadderTraining(hk_context context, const HostError& error, const Ladder& ladder, const Log& log)
        : context_(context), error_(error), ladder_(ladder), log_(log) {}

    // Trains the runs of sizes, or the targets, that are not finished. Returns kDone or what the training that ended it
    // returned; also then points() has all that are finished.
    int train(bool targets) {
        int code = kDone;
        for (const LadderRun& run : ladder_.runs) {
            if (run.target != targets) continue;
            if (code == kDone)
                code = train(run);
            else
                (void)add_finished(run); // its error is reported in its turn
        }
        return code;
    }
    // Adds finished runs without training any.
    Status find(bool targets) {
        for (const LadderRun& run : ladder_.runs) {
            if (run.target != targets) continue;
            HK_ASSIGN(const bool finished, add_finished(run));
            if (!finished) missing_.push_back(run.name);
        }
        return {};
    }
    const std::vector<Point>& points() const { return points_; }
    const std::vector<std::string>& missing() const { return missing_; }

    // Plans a run: its size, and its operations of a step.
    int plan(const LadderRun& run, RunSize& size) {
        std::vector<std::string> overrides = overrides_of(run, 1);
        const std::vector<hk_string> given = host_strings(overrides);
        hk_device_limits limits{};
        limits.struct_size = sizeof limits;
        if (hk_device_limits_named(text("cpu"), &limits, error_.error) != HK_OK) return error_.report();
        hk_plan_options options{};
        options.struct_size = sizeof options;
        options.mode = HK_PLAN_TRAIN;
        options.recipe = text(ladder_.recipe);
        options.overrides = given.data();
        options.override_count = given.size();
        options.limits = &limits;
        options.user = &size;
        options.report = [](void* user, const hk_plan_report* r) {
            auto& size = *static_cast<RunSize*>(user);
            size.parameters = static_cast<double>(r->parameters);
            size.without_embeddings = static_cast<double>(r->parameters - r->embeddings);
            size.flops = r->flops;
            size.tokens_per_step = r->rows * r->length;
            size.tokens_of_data = static_cast<int64_t>(r->examples) * r->length;
        };
        return hk_plan(context_, &options, error_.error) == HK_OK ? kDone : error_.report();
    }

    // Returns the recipe's overrides for a run of `steps` steps.
    std::vector<std::string> overrides_of(const LadderRun& run, int64_t steps) const {
        std::vector<std::string> all = run.overrides;
        const auto assign = [&](const char* key, const std::string& value) {
            all.push_back(fmt::format("{}={}", key, value));
        };
        assign("output.dir", nlohmann::json(folder(run).string()).dump());
        assign("data.cache", nlohmann::json((ladder_.folder / "cache").string()).dump());
        assign("train.max_steps", std::to_string(steps));
        assign("train.eval_steps", std::to_string(steps)); // once, at the end
        return all;
    }
    fs::path folder(const LadderRun& run) const { return ladder_.folder / run.name; }

private:
    Result<bool> add_finished(const LadderRun& run) {
        const fs::path file = folder(run) / kPointFile;
        std::error_code problem;
        if (!fs::exists(file, problem)) return false;
        HK_ASSIGN(const std::vector<Point> read, scaling::read_points(file.string(), {}));
        HK_ASSIGN(const std::string text, read_file(folder(run) / "recipe.toml"));
        HK_ASSIGN(const train::Recipe before,
                  train::parse_resolved_recipe(text, (folder(run) / "recipe.toml").string()));
        HK_ASSIGN(train::Recipe now, train::read_recipe(ladder_.recipe, overrides_of(run, before.train.max_steps)));
        if (now.distributed.parts == 0) now.distributed.parts = before.distributed.parts; // the run chose it
        HK_TRY(train::check_resume(before, now, folder(run).string(), true, log_));
        if (read.size() != 1 || read[0].name != run.name || read[0].held_out != run.target)
            return corrupt(fmt::format("{}: is not the result of '{}': remove the folder, and it is trained again",
                                       file.string(), run.name));
        points_.push_back(read[0]);
        return true;
    }

    int train(const LadderRun& run) {
        const Result<bool> finished = add_finished(run);
        if (!finished.ok()) return fail(finished.status());
        if (finished.value()) return kDone;
        RunSize size;
        if (const int code = plan(run, size); code != kDone) return code;
        const Result<int64_t> steps = steps_of(run, size);
        if (!steps.ok()) return fail(steps.status());
        Progress progress;
        const std::vector<std::string> overrides = overrides_of(run, steps.value());
        const Result<train::Recipe> recipe = train::read_recipe(ladder_.recipe, overrides);
        if (!recipe.ok()) return fail(recipe.status());
        progress.logging_steps = recipe->train.logging_steps;
        progress.line(fmt::format("{}: {} parameters, {} tokens, {:.3g} FLOPs, {}", run.name, grouped(size.parameters),
                                  grouped(static_cast<double>(steps.value() * size.tokens_per_step)),
                                  size.flops * static_cast<double>(steps.value()), folder(run).string()));
        const std::vector<hk_string> given = host_strings(overrides);
        const hk_train_options options = training_options(ladder_.recipe, given, progress);
        hk_train_result trained{};
        if (const int code = train_once(context_, error_, options, progress, trained); code != kDone) return code;
        if (trained.stopped != 0) {
            progress.line(fmt::format("stopped in {}; the same command resumes", run.name));
            return stopped_status();
        }
        const Result<Scores> scores = logged_scores(folder(run).string(), recipe->train.load_best_model_at_end);
        if (!scores.ok()) return fail(scores.status());
        Point point{.name = run.name,
                    .parameters = size.parameters,
                    .without_embeddings = size.without_embeddings,
                    .tokens = static_cast<double>(steps.value() * size.tokens_per_step),
                    .flops = size.flops * static_cast<double>(steps.value()),
                    .held_out = run.target};
        for (const auto& [name, value] : scores.value())
            if (name == "loss") point.loss = value;
        if (!(point.loss > 0.0) || !std::isfinite(point.loss))
            return fail(
                failed_precondition(fmt::format("{}: its validation loss is {}; a scaling law needs a number above 0: "
                                                "lower train.learning_rate of this size",
                                                run.name, point.loss)));
        if (const Status written = write_file_atomically(folder(run) / kPointFile, scaling::points_csv({&point, 1}));
            !written.ok())
            return fail(written);
        points_.push_back(point);
        progress.line(fmt::format("{}: validation loss {:.4f}", run.name, point.loss));
        return kDone;
    }

    Result<int64_t> steps_of(const LadderRun& run, const RunSize& size) const {
        if (run.tokens < size.tokens_per_step)
            return invalid_argument(fmt::format("{}: '{}' trains on {} tokens, which are less than one step's {}",
                                                ladder_.file, run.name, run.tokens, size.tokens_per_step));
        if (run.tokens > size.tokens_of_data && !ladder_.repeat_data)
            return invalid_argument(fmt::format("{}: '{}' trains on {} tokens, and the training data has {}: repeated "
                                                "data bends a scaling law; use more "
                                                "data, or set repeat_data = true",
                                                ladder_.file, run.name, grouped(static_cast<double>(run.tokens)),
                                                grouped(static_cast<double>(size.tokens_of_data))));
        return run.tokens / size.tokens_per_step;
    }

    hk_context context_;
    const HostError& error_;
    const Ladder& ladder_;
    Log log_;
    std::vector<Point> points_;
    std::vector<std::string> missing_;
};

int list_runs(LadderTraining& training, const Ladder& ladder) {
    std::printf("%-24s %12s %12s %12s %10s\n", "run", "parameters", "without emb.", "tokens", "FLOPs");
    double sum = 0.0;
    for (const LadderRun& run : ladder.runs) {
        RunSize size;
        if (const int code = training.plan(run, size); code != kDone) return code;
        const double flops = size.flops * static_cast<double>(run.tokens / size.tokens_per_step);
        sum += flops;
        fmt::printf("%-24s %12s %12s %12s %10.3g%s\n", run.name.c_str(), grouped(size.parameters).c_str(),
                    grouped(size.without_embeddings).c_str(), grouped(static_cast<double>(run.tokens)).c_str(), flops,
                    run.target ? "  target" : "");
    }
    fmt::printf("%-24s %12s %12s %12s %10.3g\n", "all", "", "", "", sum);
    return kDone;
}

// Fits what is trained, writes the predictions of the targets, and only then trains these.
int run_targets(LadderTraining& training, const Ladder& ladder) {
    if (const Status found = training.find(false); !found.ok()) return fail(found);
    if (!training.missing().empty())
        return fail(
            failed_precondition(fmt::format("{}: '{}' is not trained yet: run the ladder without --targets first",
                                            ladder.file, training.missing().front())));
    const fs::path file = ladder.folder / "predictions.json";
    std::error_code problem;
    if (!fs::exists(file, problem)) {
        const Result<std::vector<Fit>> fits =
            scaling::fit_all(training.points(), scaling::kForms, {.stop = StopPoll([] { return interrupted(); })});
        if (!fits.ok()) return fail(fits.status().with_context(ladder.file));
        const Fit& fit = fits->front();
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        for (const LadderRun& run : ladder.runs) {
            if (!run.target) continue;
            RunSize size;
            if (const int code = training.plan(run, size); code != kDone) return code;
            const double tokens = static_cast<double>(run.tokens / size.tokens_per_step * size.tokens_per_step);
            const double parameters = fit.without_embeddings ? size.without_embeddings : size.parameters;
            const scaling::Range range = fit.loss_range(parameters, tokens);
            const double loss = fit.law.loss(parameters, tokens);
            all.push_back({{"name", run.name},
                           {"law", scaling::form_name(fit.law.form)},
                           {"without_embeddings", fit.without_embeddings},
                           {"parameters", size.parameters},
                           {"tokens", tokens},
                           {"loss", loss},
                           {"low", range.low},
                           {"high", range.high}});
            fmt::fprintf(stderr, "%s: predicted loss %.4f (%.4f to %.4f)\n", run.name.c_str(), loss, range.low,
                         range.high);
        }
        if (all.empty()) return fail(invalid_argument(fmt::format("{}: has no [[target]]", ladder.file)));
        if (const Status written = write_file_atomically(file, all.dump(1) + "\n"); !written.ok()) return fail(written);
    }
    return training.train(true);
}

int run_ladder(const Globals& globals, const RunArguments& a) {
    const Result<Ladder> ladder = read_ladder(a.ladder);
    if (!ladder.ok()) return fail(ladder.status());
    for (const LadderRun& run : ladder->runs) // before anything is trained
        if (const Result<train::Recipe> recipe = train::read_recipe(ladder->recipe, run.overrides); !recipe.ok())
            return fail(recipe.status().with_context(fmt::format("{}: '{}'", ladder->file, run.name)));
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error, a.list ? HK_DEVICE_NONE : HK_DEVICE_ON_DEMAND); code != kDone)
        return code;
    watch_interrupts(kStoppedEarly);
    LadderTraining training(context.context, error, ladder.value(), globals.log());
    if (a.list) return list_runs(training, ladder.value());
    int code = kDone;
    if (a.targets) {
        code = run_targets(training, ladder.value());
    } else {
        code = training.train(false);
        if (const Status found = training.find(true); !found.ok() && code == kDone) return fail(found);
    }
    const std::string csv = scaling::points_csv(training.points());
    if (!training.points().empty())
        if (const Status written = write_file_atomically(ladder->folder / "points.csv", csv); !written.ok())
            return fail(written);
    if (code != kDone) return code;
    std::printf("%s", csv.c_str());
    return kDone;
}

void add_run(CLI::App& scale, const Globals& globals, Verbs& verbs) {
    CLI::App* parser =
        scale.add_subcommand("run", "Train a ladder: several sizes of a recipe's model on several numbers of tokens.");
    const auto arguments = std::make_shared<RunArguments>();
    parser->add_option("ladder", arguments->ladder, "ladder file (TOML)")->required();
    parser->add_flag(
        "--targets", arguments->targets,
        "train the ladder's [[target]]s, after their losses were predicted and written to predictions.json");
    parser->add_flag("--list", arguments->list, "print sizes and operations of all runs, then exit");
    parser->footer(
        "A ladder:\n"
        "\n"
        "  recipe = \"characters.toml\"          # from the ladder's folder\n"
        "  dir = \"out/scaling\"\n"
        "  tokens = [1_000_000, 2_000_000]     # each size is trained on each\n"
        "  [[size]]\n"
        "  name = \"small\"\n"
        "  overrides = [\"model.n_embd=32\", \"train.learning_rate=4e-3\"]\n"
        "  [[target]]                          # held out, with tokens of its own\n"
        "\n"
        "Each run has its own folder in `dir`; its schedule ends with its tokens. points.csv in `dir` and on\n"
        "standard output has all finished runs: parameters with and without embeddings, tokens, FLOPs by the\n"
        "plan, validation loss. Ctrl+C saves a checkpoint; the same command resumes. Finished runs are not\n"
        "repeated.\n"
        "\n"
        "Example: hekla scale run ladder.toml --list");
    verbs.push_back({parser, [&globals, arguments] { return run_ladder(globals, *arguments); }});
}

void add_fit(CLI::App& scale, Verbs& verbs) {
    CLI::App* parser = scale.add_subcommand("fit", "Fit scaling laws to trained models, with intervals.");
    const auto arguments = std::make_shared<FitArguments>();
    parser->add_option("points", arguments->points, "points.csv, its folder, or another table (csv, tsv, jsonl)")
        ->required();
    parser->add_option("--column", arguments->columns,
                       "name of a column in the file: parameters, parameters_without_embeddings, tokens, flops, loss, "
                       "name, held_out; repeatable");
    parser->add_option("--law", arguments->law, "law to fit")
        ->check(CLI::IsMember({"all", "chinchilla", "kaplan", "droppo"}));
    parser->add_flag("--without-embeddings", arguments->without_embeddings,
                     "N is without embeddings alone; otherwise laws over all parameters are fitted, too");
    parser->add_option("--until-flops", arguments->until_flops, "hold out the models with as many FLOPs or more")
        ->check(CLI::PositiveNumber);
    parser->add_option("--resamples", arguments->resamples, "resamples of the bootstrap; 0: no intervals")
        ->check(CLI::Range(0, 100000));
    parser->add_option("--seed", arguments->seed, "seed of the bootstrap");
    parser->add_option("-o,--output", arguments->output, "folder for the files; default: that of the points");
    parser->add_flag("--json", arguments->json, "print the result as JSON");
    parser->footer(
        "chinchilla: L = E + A / N^alpha + B / D^beta; kaplan: L = ((Nc / N)^(alpha_N / alpha_D) + Dc / D)^alpha_D;\n"
        "droppo: L = (L_inf^(1 / alpha) + (Nc / N)^(alpha_N / alpha) + (Dc / D)^(alpha_D / alpha))^alpha;\n"
        "N parameters, D tokens. Minimizes the Huber loss of log L (delta 1e-3).\n"
        "Each law is also fitted to all but the fourth of the models\n"
        "with most FLOPs; the law that predicts these best is the first, by which held-out models are predicted.\n"
        "The errors of two naive rules are printed too. Writes fit.json, scaling.svg and scaling.html.\n"
        "\n"
        "Example: hekla scale fit runs.csv --column parameters=\"Model Size\" --column flops=\"Training FLOP\"");
    verbs.push_back({parser, [arguments] { return run_fit(*arguments); }});
}

void add_predict(CLI::App& scale, Verbs& verbs) {
    CLI::App* parser = scale.add_subcommand("predict", "Predict the loss of a model that is not trained yet.");
    const auto arguments = std::make_shared<PredictionArguments>();
    parser->add_option("fit", arguments->fit, "fit.json, or its folder")->required();
    parser->add_option("--parameters", arguments->parameters, "N, its number of parameters")
        ->check(CLI::PositiveNumber);
    parser->add_option("--tokens", arguments->tokens, "D, the tokens to train on")->check(CLI::PositiveNumber);
    parser->add_option("--flops", arguments->flops, "operations of the training; alone: with the best size and data")
        ->check(CLI::PositiveNumber);
    parser->add_option("--law", arguments->law, "law to use; default: the first of the file")
        ->check(CLI::IsMember({"chinchilla", "kaplan", "droppo"}));
    parser->add_flag("--without-embeddings", arguments->without_embeddings, "N is without embeddings");
    parser->add_flag("--json", arguments->json, "print the result as JSON");
    parser->footer("Give two of --parameters, --tokens and --flops, or --flops alone.\n"
                   "\n"
                   "Example: hekla scale predict out/scaling --flops 1e15");
    verbs.push_back(
        {parser, [arguments, parser] {
             const int given = (arguments->parameters > 0.0) + (arguments->tokens > 0.0) + (arguments->flops > 0.0);
             if (given == 3 || given == 0 || (given == 1 && arguments->flops <= 0.0)) {
                 std::fprintf(stderr, "hekla scale predict: give two of --parameters, --tokens and --flops, or --flops "
                                      "alone\n");
                 return kUsage;
             }
             return run_predict(*arguments);
         }});
}

} // namespace

void add_scale(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "scale", "Scaling laws: train a ladder of models, fit the loss, predict larger ones, score tasks over size.");
    parser->require_subcommand(1);
    add_run(*parser, globals, verbs);
    add_fit(*parser, verbs);
    add_predict(*parser, verbs);
    add_scale_table(*parser, globals, verbs);
}

} // namespace hekla::app
