// hekla eval: scores of trained models, through hekla.h as any host would. Tasks are in eval_tasks.cpp.
#include "adapter_option.hpp"
#include "base/path_text.hpp"
#include "command.hpp"
#include "correctness.hpp"
#include "output.hpp"
#include "pages/evaluation_page.hpp"
#include "seeds.hpp"
#include "train/recipe/recipe_file.hpp"
#include "verbs/eval_tasks.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <sstream>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kGroupScore = "right where ";
constexpr std::size_t kAlignments = 6; // shown in a report

struct EvalArguments {
    std::string recipe, output, report;
    std::vector<std::string> overrides, adapters, tasks;
    bool test = false, json = false, log_samples = false, reference = false;
    int64_t seeds = 0, limit = 0;
    uint64_t seed = 1234;
    std::vector<int64_t> num_fewshot;
    std::string chat_template, date, system_instruction, multiturn = "true";
};

struct Evaluated {
    std::vector<std::pair<std::string, double>> scores;
    std::string predictions; // JSON lines
    std::string notes;       // other messages
    ordered_json routing;    // weights of adapters, if a report is wanted
    train::Recipe recipe;
    std::vector<PredictedRow> rows; // the predictions, if groups or a report are wanted
};

// Adds the share of correct answers in each group of examples to the scores.
Status add_groups(const std::string& by, Evaluated& result) {
    const std::vector<Group> groups = groups_of(result.rows);
    if (groups.empty())
        return unsupported(fmt::format("data.group = \"{}\": whether a prediction is correct is unknown for every "
                                       "example; remove data.group, or let the model write texts "
                                       "(generate.examples = -1)",
                                       by));
    if (groups.size() == 1 && groups[0].name.empty())
        return invalid_argument(fmt::format("data.group = \"{}\": no example has this column", by));
    for (const Group& group : groups)
        result.scores.emplace_back(fmt::format("{}{} = {}", kGroupScore, by, group.name), group.correct);
    return {};
}

// Evaluates the recipe's run.
int evaluate(hk_context context, const HostError& error, const EvalArguments& a, const std::vector<std::string>& given,
             Evaluated& result) {
    const std::vector<hk_string> overrides = host_strings(given), adapters = host_strings(a.adapters);
    hk_evaluate_options options{};
    options.struct_size = sizeof options;
    options.test = a.test ? 1 : 0;
    options.recipe = text(a.recipe);
    options.overrides = overrides.data();
    options.override_count = overrides.size();
    options.adapters = adapters.data();
    options.adapter_count = adapters.size();
    options.user = &result;
    options.message = [](void* user, hk_string m) {
        static_cast<Evaluated*>(user)->notes += std::string(view(m)) + "\n";
        std::fprintf(stderr, "%s\n", std::string(view(m)).c_str());
    };
    options.score = [](void* user, const hk_score* s) {
        static_cast<Evaluated*>(user)->scores.emplace_back(view(s->name), s->value);
    };
    options.prediction = [](void* user, uint64_t, hk_string json) {
        auto& out = static_cast<Evaluated*>(user)->predictions;
        out += view(json);
        out += '\n';
    };
    if (!a.report.empty())
        options.routing = [](void* user, hk_string json) {
            static_cast<Evaluated*>(user)->routing = ordered_json::parse(view(json));
        };
    if (hk_evaluate(context, &options, error.error) != HK_OK) return error.report();
    Result<train::Recipe> recipe = train::read_recipe(a.recipe, given);
    if (!recipe.ok()) return fail(recipe.status());
    result.recipe = recipe.take();
    const std::string& by = result.recipe.data.group;
    if (by.empty() && a.report.empty()) return kDone;
    std::istringstream lines(result.predictions);
    for (std::string line; std::getline(lines, line);) result.rows.push_back(PredictedRow::parse(line));
    if (by.empty()) return kDone;
    const Status grouped = add_groups(by, result);
    return grouped.ok() ? kDone : fail(grouped);
}

Status write_report(const Globals& globals, const EvalArguments& a, const std::string& file, const Evaluated& result) {
    const train::Recipe& recipe = result.recipe;
    EvaluationPage page;
    page.title = recipe.output.dir;
    page.data = a.test ? "test data" : "validation data";
    if (a.adapters.empty())
        page.log_file = (path_of(recipe.output.dir) / "train_log.jsonl").string();
    else
        page.title = fmt::format("{} with {}", a.recipe, fmt::join(a.adapters, ", "));
    page.scores = result.scores;
    page.notes = result.notes;
    page.routing = result.routing;
    page.group = recipe.data.group;
    page.predictions = result.rows;
    std::vector<ReadAndWritten> texts;
    for (const PredictedRow& row : result.rows) {
        if (texts.size() == kAlignments) break;
        const auto prediction = row.find("said");
        if (row.contains("source") && row["source"].is_string() && prediction != row.end() &&
            prediction->contains("text"))
            texts.push_back({row["source"].get<std::string>(), (*prediction)["text"].get<std::string>()});
    }
    if (a.adapters.empty()) { // attention is that of the run's folder
        HK_ASSIGN(page.alignments, alignments(globals, recipe.output.dir, texts));
    }
    return write_output(file, evaluation_page(page));
}

int run_tasks(const Globals& globals, const EvalArguments& a) {
    TaskArguments tasks;
    tasks.models = a.overrides; // the positional arguments are models here
    if (!a.recipe.empty()) tasks.models.insert(tasks.models.begin(), a.recipe);
    if (tasks.models.empty() && a.tasks[0] != "list") {
        std::fprintf(stderr, "hekla: error: give the folder of a run or model before --tasks\n");
        return kUsage;
    }
    tasks.tasks = a.tasks;
    tasks.adapters = a.adapters;
    tasks.output = a.output;
    tasks.num_fewshot = a.num_fewshot;
    tasks.limit = a.limit;
    tasks.seed = a.seed;
    tasks.chat_template = a.chat_template;
    tasks.chat_date = a.date;
    tasks.system_instruction = a.system_instruction;
    tasks.fewshot_as_multiturn = a.multiturn != "false";
    tasks.log_samples = a.log_samples;
    tasks.json = a.json;
    tasks.reference = a.reference;
    return run_eval_tasks(globals, tasks);
}

int run_eval(const Globals& globals, const EvalArguments& a) {
    if (!a.tasks.empty()) return run_tasks(globals, a);
    if (a.recipe.empty()) {
        std::fprintf(stderr, "hekla: error: give a recipe or the folder of a run, or a model with --tasks\n");
        return kUsage;
    }
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    if (a.seeds > 0) {
        const Result<std::vector<SeedRun>> runs = seed_runs(a.recipe, a.overrides, a.seeds);
        if (!runs.ok()) return fail(runs.status());
        SeedScores all;
        std::string predictions;
        for (const SeedRun& run : runs.value()) {
            Evaluated result;
            if (const int code = evaluate(context.context, error, a, run.overrides, result); code != kDone) return code;
            all.add(run.seed, result.scores);
            predictions += result.predictions;
            if (a.report.empty()) continue;
            const std::filesystem::path page = a.report;
            const std::string file =
                (page.parent_path() / page.stem()).string() + fmt::format("-seed-{}.html", run.seed);
            if (const Status written = write_report(globals, a, file, result); !written.ok()) return fail(written);
        }
        if (!a.output.empty())
            if (const Status written = write_output(a.output, predictions); !written.ok()) return fail(written);
        std::printf("%s", a.json ? (all.json().dump() + "\n").c_str() : all.table().c_str());
        return kDone;
    }
    Evaluated result;
    if (const int code = evaluate(context.context, error, a, a.overrides, result); code != kDone) return code;
    if (!a.output.empty()) {
        const Status written = write_output(a.output, result.predictions);
        if (!written.ok()) return fail(written);
    }
    if (!a.report.empty())
        if (const Status written = write_report(globals, a, a.report, result); !written.ok()) return fail(written);
    ordered_json j;
    std::string line;
    for (const auto& [name, value] : result.scores) {
        j[name] = value;
        const bool of_group = name.starts_with(kGroupScore); // one line each, since there may be many
        line += fmt::format("{}{} {:.{}f}",
                            line.empty() ? ""
                            : of_group   ? "\n"
                                         : ", ",
                            name, value, name == "perplexity" ? 3 : 4);
    }
    std::printf("%s\n", a.json ? j.dump().c_str() : line.c_str());
    return kDone;
}

} // namespace

void add_eval(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "eval", "Compute loss and scores of a run's newest checkpoint, or evaluate models on tasks.");
    const auto a = std::make_shared<EvalArguments>();
    parser->add_option("recipe", a->recipe,
                       "recipe file (TOML) or the folder of a run, evaluated on its validation or test data; with "
                       "--tasks the folder of a run or model");
    parser->add_option("overrides", a->overrides,
                       "recipe keys to override: data.test=other.tsv; with --tasks more models, for one table");
    CLI::Option* seeds = parser
                             ->add_option("--seeds", a->seeds,
                                          "evaluate the N runs of `train --seeds`; prints mean and standard "
                                          "deviation")
                             ->check(CLI::Range(1, 1000));
    add_adapter_option(*parser, a->adapters,
                       "; instead of the recipe's own, on model.from if the recipe trains adapters, and on what "
                       "its run has trained otherwise")
        ->excludes(seeds);
    CLI::Option* test = parser->add_flag("--test", a->test, "use data.test instead of the validation data");
    CLI::Option* tasks = parser
                             ->add_option("--tasks", a->tasks,
                                          "task files (TOML) or folders of them, for language models; 'list': print "
                                          "the tasks that follow it, or those that Hekla has")
                             ->excludes(seeds)
                             ->excludes(test);
    parser
        ->add_option("--num-fewshot", a->num_fewshot,
                     "demonstrations in a prompt, instead of the tasks' own; loglikelihood_rolling has none. Several "
                     "numbers (0,1,2,4): the scores over them")
        ->delimiter(',')
        ->check(CLI::Range(0, 10'000))
        ->needs(tasks);
    parser->add_option("--limit", a->limit, "documents of a task, the first ones; 0: all")
        ->check(CLI::NonNegativeNumber)
        ->needs(tasks);
    parser->add_option("--seed", a->seed, "seed of demonstrations and sampled texts")
        ->capture_default_str()
        ->needs(tasks);
    CLI::Option* chat =
        parser
            ->add_option("--apply-chat-template", a->chat_template,
                         "make prompts conversations: by the model's chat template (without a value), a built-in one "
                         "or a file")
            ->expected(0, 1)
            ->default_str("auto")
            ->needs(tasks);
    parser
        ->add_option("--date", a->date,
                     "date that the chat template prints where it asks for one, as 2026-01-31; not given: today")
        ->needs(chat);
    parser
        ->add_option("--system-instruction", a->system_instruction,
                     "text at the beginning of every prompt, before the task's description; with a chat template "
                     "the system message")
        ->needs(tasks);
    parser
        ->add_option("--fewshot-as-multiturn", a->multiturn,
                     "with a chat template: demonstrations are turns of the conversation (true), or part of the "
                     "user's only message (false)")
        ->check(CLI::IsMember({"true", "false"}))
        ->capture_default_str()
        ->needs(chat);
    CLI::Option* output = parser->add_option("-o,--output", a->output,
                                             "file for the predictions, one JSON object per example; with --tasks a "
                                             "folder for results.json and report.html");
    parser->add_flag("--log-samples", a->log_samples, "also write samples_TASK.jsonl: prompts, answers and scores")
        ->needs(tasks)
        ->needs(output);
    parser->add_flag("--reference", a->reference, "compute with the float64 interpreter instead of the device (slow)")
        ->needs(tasks);
    parser
        ->add_option("--report", a->report,
                     "HTML page to write: scores, learning curves, confusion matrix, examples, weights of "
                     "adapters that are combined")
        ->excludes(tasks);
    parser->add_flag("--json", a->json, "print the scores as JSON");
    parser->footer("Perplexity is printed where the loss is a mean over tokens.\n"
                   "Example: hekla eval recipe.toml\n"
                   "Tasks have the keys of lm-evaluation-harness, and so have the results (docs/tasks.md): hekla eval "
                   "out/gpt out/other --tasks copying.toml -o out/scores");
    verbs.push_back({parser, [&globals, a] { return run_eval(globals, *a); }});
}

} // namespace hekla::app
