// hekla eval, hekla predict: as any host would, through hekla.h.
#include "command.hpp"
#include "correctness.hpp"
#include "output.hpp"
#include "pages/evaluation_page.hpp"
#include "seeds.hpp"

#include "train/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kGroupScore = "right where ";
constexpr std::size_t kAlignments = 6; // shown in a report

struct EvalArguments {
    std::string recipe, output, report;
    std::vector<std::string> overrides;
    bool test = false, json = false;
    int64_t seeds = 0;
};

struct Told {
    std::vector<std::pair<std::string, double>> scores;
    std::string predictions; // JSON lines
    std::string notes;       // what else was said
    train::Recipe recipe;
    std::vector<ToldRow> rows; // the predictions, where groups or a report are wanted
};

// The share of right answers in each group of examples, as scores behind the others.
Status add_groups(const std::string& by, Told& told) {
    const std::vector<Group> groups = groups_of(told.rows);
    if (groups.empty())
        return unsupported(fmt::format("data.group = \"{}\": of no example can be told whether what was said is "
                                       "right: leave it out, or let texts be written (generate.examples = -1)",
                                       by));
    if (groups.size() == 1 && groups[0].name.empty())
        return invalid_argument(fmt::format("data.group = \"{}\": no example has such a column", by));
    for (const Group& group : groups)
        told.scores.emplace_back(fmt::format("{}{} = {}", kGroupScore, by, group.name), group.right);
    return {};
}

// What the recipe's run says of its data.
int evaluate(hk_context context, const HostError& error, const EvalArguments& a, const std::vector<std::string>& given,
             Told& told) {
    const std::vector<hk_string> overrides = host_strings(given);
    hk_evaluate_options options{};
    options.struct_size = sizeof options;
    options.test = a.test ? 1 : 0;
    options.recipe = text(a.recipe);
    options.overrides = overrides.data();
    options.override_count = overrides.size();
    options.user = &told;
    options.message = [](void* user, hk_string m) {
        static_cast<Told*>(user)->notes += std::string(view(m)) + "\n";
        std::fprintf(stderr, "%s\n", std::string(view(m)).c_str());
    };
    options.score = [](void* user, const hk_score* s) {
        static_cast<Told*>(user)->scores.emplace_back(view(s->name), s->value);
    };
    options.prediction = [](void* user, uint64_t, hk_string json) {
        auto& out = static_cast<Told*>(user)->predictions;
        out += view(json);
        out += '\n';
    };
    if (hk_evaluate(context, &options, error.error) != HK_OK) return error.report();
    Result<train::Recipe> recipe = train::read_recipe(a.recipe, given);
    if (!recipe.ok()) return fail(recipe.status());
    told.recipe = recipe.take();
    const std::string& by = told.recipe.data.group;
    if (by.empty() && a.report.empty()) return kDone;
    std::istringstream lines(told.predictions);
    for (std::string line; std::getline(lines, line);) told.rows.push_back(ToldRow::parse(line));
    if (by.empty()) return kDone;
    const Status grouped = add_groups(by, told);
    return grouped.ok() ? kDone : fail(grouped);
}

Status write_report(const Globals& globals, const EvalArguments& a, const std::string& file, const Told& told) {
    const train::Recipe& recipe = told.recipe;
    EvaluationPage page;
    page.title = recipe.output.dir;
    page.data = a.test ? "test data" : "validation data";
    page.log_file = (std::filesystem::path(recipe.output.dir) / "train_log.jsonl").string();
    page.scores = told.scores;
    page.notes = told.notes;
    page.group = recipe.data.group;
    page.predictions = told.rows;
    std::vector<ReadAndWritten> texts;
    for (const ToldRow& row : told.rows) {
        if (texts.size() == kAlignments) break;
        const auto said = row.find("said");
        if (row.contains("source") && row["source"].is_string() && said != row.end() && said->contains("text"))
            texts.push_back({row["source"].get<std::string>(), (*said)["text"].get<std::string>()});
    }
    HK_ASSIGN(page.alignments, alignments(globals, recipe.output.dir, texts));
    return write_output(file, evaluation_page(page));
}

int run_eval(const Globals& globals, const EvalArguments& a) {
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    if (a.seeds > 0) {
        const Result<std::vector<SeedRun>> runs = seed_runs(a.recipe, a.overrides, a.seeds);
        if (!runs.ok()) return fail(runs.status());
        SeedScores all;
        std::string said;
        for (const SeedRun& run : runs.value()) {
            Told told;
            if (const int code = evaluate(context.context, error, a, run.overrides, told); code != kDone) return code;
            all.add(run.seed, told.scores);
            said += told.predictions;
            if (a.report.empty()) continue;
            const std::filesystem::path page = a.report;
            const std::string file =
                (page.parent_path() / page.stem()).string() + fmt::format("-seed-{}.html", run.seed);
            if (const Status written = write_report(globals, a, file, told); !written.ok()) return fail(written);
        }
        if (!a.output.empty())
            if (const Status written = write_output(a.output, said); !written.ok()) return fail(written);
        std::printf("%s", a.json ? (all.json().dump() + "\n").c_str() : all.table().c_str());
        return kDone;
    }
    Told told;
    if (const int code = evaluate(context.context, error, a, a.overrides, told); code != kDone) return code;
    if (!a.output.empty()) {
        const Status written = write_output(a.output, told.predictions);
        if (!written.ok()) return fail(written);
    }
    if (!a.report.empty())
        if (const Status written = write_report(globals, a, a.report, told); !written.ok()) return fail(written);
    ordered_json j;
    std::string line;
    for (const auto& [name, value] : told.scores) {
        j[name] = value;
        const bool of_group = name.starts_with(kGroupScore); // a line each: there may be many
        line += fmt::format("{}{} {:.4f}", line.empty() ? "" : of_group ? "\n" : ", ", name, value);
        if (name != "loss") continue;
        j["perplexity"] = std::exp(value);
        line += fmt::format(", perplexity {:.3f}", std::exp(value));
    }
    std::printf("%s\n", a.json ? j.dump().c_str() : line.c_str());
    return kDone;
}

struct PredictArguments {
    std::string model, file, format, output;
    std::vector<std::string> texts, seconds, columns;
    int64_t batch = 8, length = 0;
    bool reference = false;
};

int run_predict(const Globals& globals, const PredictArguments& a) {
    if (a.texts.empty() == a.file.empty()) {
        std::fprintf(stderr, "hekla: error: give texts, or --file\n");
        return kUsage;
    }
    if (!a.seconds.empty() && a.seconds.size() != a.texts.size()) {
        std::fprintf(stderr, "hekla: error: --second %zu times, %zu texts: expected one each\n", a.seconds.size(),
                     a.texts.size());
        return kUsage;
    }
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    const std::vector<hk_string> texts = host_strings(a.texts), seconds = host_strings(a.seconds),
                                 columns = host_strings(a.columns);
    std::vector<std::string> rows;
    hk_predict_options options;
    hk_predict_defaults(&options);
    options.reference = a.reference ? 1 : 0;
    options.model = text(a.model);
    options.batch = a.batch;
    options.length = a.length;
    options.texts = texts.data();
    options.second_texts = seconds.empty() ? nullptr : seconds.data();
    options.text_count = texts.size();
    options.file = text(a.file);
    options.format = text(a.format);
    options.columns = columns.data();
    options.column_count = columns.size();
    options.user = &rows;
    options.row = [](void* user, uint64_t row, hk_string json) -> int32_t {
        auto& into = *static_cast<std::vector<std::string>*>(user);
        into.resize(std::max(into.size(), static_cast<std::size_t>(row) + 1));
        into[row] = view(json);
        return interrupted() ? 1 : 0;
    };
    watch_interrupts();
    if (hk_predict(context.context, &options, error.error) != HK_OK) return error.report();
    std::string out;
    for (const std::string& row : rows) out += row + "\n";
    const Status written = write_output(a.output, out);
    return written.ok() ? kDone : fail(written);
}

} // namespace

void add_predict(CLI::App& app, const Globals& globals, Verbs& verbs) {
    {
        CLI::App* parser =
            app.add_subcommand("eval", "Loss and scores on a recipe's validation or test data, with its run's newest "
                                       "checkpoint.");
        const auto a = std::make_shared<EvalArguments>();
        parser->add_option("recipe", a->recipe, "the recipe, a TOML file")->required();
        parser->add_option("overrides", a->overrides, "keys of the recipe: data.test=other.tsv");
        parser->add_option("--seeds", a->seeds, "of the runs of `train --seeds`, with mean and deviation")
            ->check(CLI::Range(1, 1000));
        parser->add_flag("--test", a->test, "on data.test instead of the validation data");
        parser->add_option("-o,--output", a->output, "a file for what was said of every example, an object a line");
        parser->add_option("--report", a->report, "an .html page: scores, curves, confusion matrix, examples");
        parser->add_flag("--json", a->json, "the scores as JSON on standard output");
        parser->footer("Example: hekla eval apps/recipes/quickstart.toml");
        verbs.push_back({parser, [&globals, a] { return run_eval(globals, *a); }});
    }
    CLI::App* parser = app.add_subcommand("predict", "What a fine-tuned model says of texts: labels, numbers, tags.");
    const auto a = std::make_shared<PredictArguments>();
    parser->add_option("model", a->model, "the folder of a run or model")->required();
    parser->add_option("--text", a->texts, "a text (may be repeated)");
    parser->add_option("--second", a->seconds, "its second text, for models that read two (once for each --text)");
    parser->add_option("--file", a->file, "rows: .tsv, .csv, .jsonl, .conllu, .txt, also .gz and .zst");
    parser->add_option("--format", a->format, "of the file, where its name does not say: tsv, csv, jsonl, lines, ...");
    parser->add_option("--column", a->columns, "where a column stands: text=sentence, text=1 (may be repeated)");
    parser->add_option("--batch", a->batch, "rows at a time")->capture_default_str();
    parser->add_option("--length", a->length, "tokens of a row, at most; 0: as it was trained");
    parser->add_flag("--reference", a->reference, "the float64 interpreter instead of the device (slow)");
    parser->add_option("-o,--output", a->output, "a file instead of standard output");
    parser->footer("Example: hekla predict out/sst2 --text \"a film that is worth every minute\"");
    verbs.push_back({parser, [&globals, a] { return run_predict(globals, *a); }});
}

} // namespace hekla::app
