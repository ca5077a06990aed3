// hekla preferences: makes pairs or rankings of a model's own completions, ordered by a reward.
#include "command.hpp"
#include "output.hpp"
#include "sampled_completions.hpp"
#include "text/text_encoder.hpp"

#include "base/file.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "infer/open/open_model.hpp"
#include "infer/texts/prompt_style.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <numeric>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

struct PreferencesArguments {
    std::string model;
    std::vector<std::string> prompts;
    int64_t per_prompt = 4, length = 32, limit = 0;
    double temperature = 1.0, margin = 0.0;
    uint64_t seed = 1337;
    std::string stop_token = "eos";
    std::string reward;
    std::vector<std::string> keys; // KEY=VALUE of the reward
    bool rankings = false, all_pairs = false;
    std::string output;
};

// What became of the prompts.
struct Counts {
    std::size_t lines = 0;
    std::size_t equal_texts = 0, equal_scores = 0, unscored = 0; // prompts without a line
};

Result<reward::RewardSpec> reward_spec(const PreferencesArguments& a) {
    reward::RewardSpec spec;
    spec.name = spec.id = a.reward;
    for (const std::string& one : a.keys) {
        const std::size_t equal = one.find('=');
        if (equal == std::string::npos || equal == 0)
            return invalid_argument(fmt::format("--set {}: expected KEY=VALUE, such as column=answer", one));
        const std::string value = one.substr(equal + 1);
        const nlohmann::json parsed = json_or_null(value);
        spec.config[one.substr(0, equal)] =
            parsed.is_null() || parsed.is_string() || parsed.is_object() ? nlohmann::json(value) : parsed;
    }
    return spec;
}

// A completion and its score.
struct ScoredText {
    const SampledText* text = nullptr;
    double score = 0.0;
};

// Returns the different completions of a prompt that have a score, best first; of equal scores, the first that was
// written is first.
std::vector<ScoredText> ranked_texts(std::span<const SampledText> texts, std::span<const double> scores) {
    std::vector<ScoredText> all;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const bool known = std::ranges::any_of(all, [&](const ScoredText& c) { return c.text->text == texts[i].text; });
        if (!known && !std::isnan(scores[i]) && !texts[i].text.empty()) all.push_back({&texts[i], scores[i]});
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &ScoredText::score);
    return all;
}

std::string preference_line(const ordered_json& line) { return json_line(line) + "\n"; }

// Appends the lines of a prompt.
void add_lines(const PreferencesArguments& a, const std::string& prompt, std::span<const SampledText> texts,
               std::span<const double> scores, std::string& out, Counts& counts) {
    const std::vector<ScoredText> all = ranked_texts(texts, scores);
    if (all.size() < 2) {
        const bool scored = std::ranges::any_of(scores, [](double score) { return !std::isnan(score); });
        ++(scored ? counts.equal_texts : counts.unscored);
        return;
    }
    const std::size_t before = counts.lines;
    if (a.rankings) {
        ordered_json texts_in_order = ordered_json::array(), scores_in_order = ordered_json::array();
        double last = std::numeric_limits<double>::infinity();
        for (const ScoredText& one : all) {
            if (!(last - one.score > a.margin)) continue; // its place would be chance
            last = one.score;
            texts_in_order.push_back(one.text->text);
            scores_in_order.push_back(one.score);
        }
        if (texts_in_order.size() > 1) {
            out += preference_line({{"prompt", prompt}, {"ranking", texts_in_order}, {"scores", scores_in_order}});
            ++counts.lines;
        }
    } else {
        for (std::size_t best = 0; best < (a.all_pairs ? all.size() : 1); ++best)
            for (std::size_t other = a.all_pairs ? best + 1 : all.size() - 1; other < all.size(); ++other) {
                if (!(all[best].score - all[other].score > a.margin)) continue;
                out += preference_line({{"prompt", prompt},
                                        {"chosen", all[best].text->text},
                                        {"rejected", all[other].text->text},
                                        {"chosen_score", all[best].score},
                                        {"rejected_score", all[other].score}});
                ++counts.lines;
            }
    }
    if (counts.lines == before) ++counts.equal_scores;
}

Result<int> preferences(const Globals& globals, const PreferencesArguments& a) {
    if (a.rankings && a.all_pairs)
        return invalid_argument("--rankings and --all-pairs: a ranking has all pairs of its completions: remove one");
    const bool prints = a.output == "-";
    if (!prints) HK_TRY(check_output_file(a.output));
    HK_ASSIGN(const reward::RewardSpec spec, reward_spec(a));
    const plugin::Registry registry = scan_plugins(globals);
    const Result<std::vector<std::string>> columns = reward::columns_of_rewards(std::span(&spec, 1), registry);
    if (!columns.ok()) return columns.status().with_context("--set");
    watch_interrupts(kStoppedEarly);
    const StopPoll stop([] { return interrupted(); });
    DeviceOnDemand device(globals);
    infer::ModelOptions options;
    options.head = "lm";
    HK_ASSIGN(const infer::Model described, infer::describe_model(registry, a.model, options, globals.log()));
    if (described.tokenizer == nullptr)
        return invalid_argument(fmt::format("{}: has no tokenizer, so it reads no prompts", a.model));
    const std::string prefix = infer::trained_prefix(described.config, "prompt");
    HK_ASSIGN(const infer::PromptStyle style, infer::prompt_style(registry, described));
    HK_ASSIGN(const Prompts prompts, read_prompts(a.prompts, columns.value(), infer::text_encoder(described),
                                                  style.begin, prefix, static_cast<uint64_t>(a.limit), stop));
    HK_ASSIGN(const infer::Model model, infer::open_model(registry, device.source(), a.model, options, globals.log()));
    const Result<reward::RewardSet> rewards =
        reward::RewardSet::create(std::span(&spec, 1), registry, device.source(), globals.log());
    if (!rewards.ok()) return rewards.status().with_context("--set");
    ShownProgress progress;
    SamplingOptions sampling;
    sampling.per_prompt = a.per_prompt;
    sampling.length = a.length;
    sampling.temperature = a.temperature;
    sampling.seed = a.seed;
    sampling.ends = a.stop_token == "eos";
    sampling.stop = stop;
    sampling.progress = [&](std::size_t done, std::size_t all) {
        progress.show(fmt::format("{} of {} completions", done, all));
    };
    HK_ASSIGN(const std::vector<SampledText> texts, sample_completions(model, prompts, sampling));
    progress.show("scoring");
    HK_ASSIGN(const reward::Scores scores, score_completions(rewards.value(), prompts, texts, a.per_prompt));
    progress.end();
    HK_TRY(stop.check_now("scoring completions"));
    std::string out;
    Counts counts;
    const auto n = static_cast<std::size_t>(a.per_prompt);
    for (std::size_t i = 0; i < prompts.size(); ++i)
        add_lines(a, prompts.table.text(prompts.rows[i], "prompt"), std::span(texts).subspan(i * n, n),
                  std::span(scores.total).subspan(i * n, n), out, counts);
    const std::string skipped =
        fmt::format("{} prompts left out: {} whose completions are all equal or empty, {} whose "
                    "scores are, {} without a score",
                    counts.equal_texts + counts.equal_scores + counts.unscored, counts.equal_texts, counts.equal_scores,
                    counts.unscored);
    if (counts.lines == 0)
        return failed_precondition(
            fmt::format("{}: no completion is better than another one: {}; raise --per-prompt or "
                        "--temperature, or choose another reward",
                        a.output, skipped));
    HK_TRY(write_output(a.output, out));
    fmt::print(prints ? stderr : stdout, "{}: {} {} of {} prompts; {}\n", a.output, counts.lines,
               a.rankings ? "rankings" : "pairs", prompts.size(), skipped);
    return kDone;
}

} // namespace

void add_preferences(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser =
        app.add_subcommand("preferences", "Write completions with a model, score them, and write pairs of a better and "
                                          "a worse one, for the objectives reward, dpo and orpo.");
    const auto a = std::make_shared<PreferencesArguments>();
    parser->add_option("model", a->model, "folder of a language model or run")->required();
    parser
        ->add_option("--prompts", a->prompts,
                     "files with a column `prompt` (JSONL, CSV, TSV), and the columns that the reward reads")
        ->required();
    parser
        ->add_option("--reward", a->reward,
                     "what scores completions: exact_match, regex, length, arithmetic, lexicon, model, or the id of a "
                     "plugin")
        ->required();
    parser->add_option("--set", a->keys,
                       "key of the reward, as in a recipe's [rewards.NAME]: column=answer, from=out/reward");
    parser->add_option("--per-prompt", a->per_prompt, "completions of each prompt")
        ->check(CLI::Range(int64_t{2}, int64_t{1} << 16))
        ->capture_default_str();
    parser->add_option("--max-new-tokens", a->length, "tokens of a completion at most")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
        ->capture_default_str();
    parser->add_option("--temperature", a->temperature, "of the distribution that completions are drawn from")
        ->check(CLI::Range(1e-3, 1e3))
        ->capture_default_str();
    parser
        ->add_option("--stop-token", a->stop_token, "what ends a completion: the tokenizer's end token, or its length")
        ->check(CLI::IsMember({"eos", "none"}))
        ->capture_default_str();
    parser->add_option("--seed", a->seed, "of the draws")->capture_default_str();
    parser->add_option("--limit", a->limit, "prompts at most, evenly spaced; 0: all")
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
        ->capture_default_str();
    parser->add_option("--margin", a->margin, "difference of scores that a pair must exceed")
        ->check(CLI::Range(0.0, 1e30))
        ->capture_default_str();
    parser->add_flag("--all-pairs", a->all_pairs, "all pairs of a prompt, not only that of the best and the worst");
    parser->add_flag("--rankings", a->rankings,
                     "lists of completions, best first (column `ranking`), instead of pairs");
    parser->add_option("-o,--output", a->output, "JSONL file to write; -: standard output")->required();
    parser->footer(
        "Example: hekla preferences out/sft --prompts prompts.jsonl --reward exact_match --set column=answer "
        "-o pairs.jsonl");
    verbs.push_back({parser, [&globals, a] {
                         Result<int> made = preferences(globals, *a);
                         if (made.code() == Code::cancelled)
                             made = Status(Code::cancelled, fmt::format("{}; {} is not written: the same command makes "
                                                                        "it from the beginning, with the same draws",
                                                                        made.message(), a->output));
                         return finish(made);
                     }});
}

} // namespace hekla::app
