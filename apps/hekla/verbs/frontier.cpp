// hekla frontier: what trainings gain of a reward that they were not trained by, over the distance from the reference.
#include "command.hpp"
#include "frontier_chart.hpp"
#include "output.hpp"
#include "sampled_completions.hpp"
#include "text/text_encoder.hpp"

#include "base/file.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "infer/open/open_model.hpp"
#include "infer/passes/likelihood.hpp"
#include "infer/texts/prompt_style.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/recipe/recipe_rollouts.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <set>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct FrontierArguments {
    std::string recipe;
    std::vector<std::string> overrides;
    std::string gold;
    std::vector<std::string> runs; // [NAME=]FOLDER
    std::vector<int64_t> best_of;
    int64_t per_prompt = 1, limit = 0;
    std::string output;
};

struct NamedFolder {
    std::string name;
    fs::path folder;
};

NamedFolder named_folder(const std::string& given) {
    const std::size_t equal = given.find('=');
    if (equal != std::string::npos && equal > 0) return {given.substr(0, equal), given.substr(equal + 1)};
    const fs::path folder = given;
    return {(folder.has_filename() ? folder : folder.parent_path()).filename().string(), folder};
}

// Returns the means of consecutive iterations of a run with rollouts; no points if its log has no divergence.
Result<std::vector<FrontierPoint>> points_of_log(const fs::path& log, const std::string& gold) {
    constexpr std::size_t kMostPoints = 32;
    HK_ASSIGN(const std::string text, read_file(log));
    std::vector<FrontierPoint> iterations;
    const std::string metric = fmt::format("rewards/{}/mean", gold);
    double episode = -1.0;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const json line = json_or_null(text.substr(begin, end - begin));
        begin = end + 1;
        ++number;
        if (!line.is_object() || !line.contains("metrics") || !line["metrics"].is_object()) continue;
        const json& m = line["metrics"];
        if (!m.contains("objective/kl") || !m.contains("episode") || !m["objective/kl"].is_number()) continue;
        if (m["episode"].get<double>() == episode) continue; // of the same iteration
        episode = m["episode"].get<double>();
        if (!m.contains(metric))
            return not_found(
                fmt::format("{}: line {}: has no '{}': the run had no reward of that name; give its recipe "
                            "[rewards.{}] with weight = 0, which is measured and not trained by",
                            log.string(), number, metric, gold));
        if (!m[metric].is_number()) continue; // no completion could be scored
        FrontierPoint& p = iterations.emplace_back();
        p.kl = m["objective/kl"].get<double>();
        p.gold = m[metric].get<double>();
        p.trained = m.contains("reward") && m["reward"].is_number() ? m["reward"].get<double>() : 0.0;
        p.number = line.value("step", int64_t{0});
    }
    const std::size_t together = (iterations.size() + kMostPoints - 1) / kMostPoints;
    std::vector<FrontierPoint> means;
    for (std::size_t first = 0; first < iterations.size(); first += together) {
        const std::size_t count = std::min(together, iterations.size() - first);
        FrontierPoint& mean = means.emplace_back();
        for (std::size_t i = first; i < first + count; ++i) {
            mean.kl += iterations[i].kl / static_cast<double>(count);
            mean.gold += iterations[i].gold / static_cast<double>(count);
            mean.trained += iterations[i].trained / static_cast<double>(count);
            mean.number = iterations[i].number;
        }
    }
    return means;
}

// The mean of the numbers that are not NaN, and its standard error.
struct MeanScore {
    double mean = 0.0, error = 0.0;
    std::size_t count = 0;
};
MeanScore mean_score(const std::vector<double>& numbers) {
    MeanScore m;
    double sum = 0.0, squares = 0.0;
    for (const double x : numbers)
        if (!std::isnan(x)) sum += x, ++m.count;
    if (m.count == 0) return m;
    const auto n = static_cast<double>(m.count);
    m.mean = sum / n;
    for (const double x : numbers)
        if (!std::isnan(x)) squares += (x - m.mean) * (x - m.mean);
    if (m.count > 1) m.error = std::sqrt(squares / (n - 1.0) / n);
    return m;
}

// Measures models on the prompts of a recipe with rollouts.
class FrontierMeter {
public:
    FrontierMeter(const Globals& globals, const FrontierArguments& arguments, const train::Recipe& recipe)
        : globals_(globals), a_(arguments), recipe_(recipe), registry_(scan_plugins(globals)), device_(globals) {}

    // Opens prompts, rewards and the reference.
    Status open() {
        const std::string& own = recipe_.reference.from;
        const std::string from = own.empty() || own == "base" ? recipe_.model.from : own;
        if (from.empty())
            return invalid_argument(fmt::format("{}: models are compared with a trained reference, and the recipe has "
                                                "none: set model.from or reference.from",
                                                a_.recipe));
        HK_ASSIGN(reference_, open_model(from));
        const std::vector<reward::RewardSpec> specs = train::reward_specs(recipe_);
        HK_ASSIGN(const std::vector<std::string> columns, reward::columns_of_rewards(specs, registry_));
        const std::vector<std::string>& files = recipe_.data.valid.empty() ? recipe_.data.train : recipe_.data.valid;
        const auto prefix = recipe_.data.prefix.find("prompt");
        HK_ASSIGN(const infer::PromptStyle style, infer::prompt_style(registry_, reference_));
        HK_ASSIGN(Prompts prompts, read_prompts(files, columns, infer::text_encoder(reference_), style.begin,
                                                prefix != recipe_.data.prefix.end() ? prefix->second : std::string(),
                                                static_cast<uint64_t>(a_.limit), stop_));
        prompts_ = std::make_unique<Prompts>(std::move(prompts));
        HK_ASSIGN(rewards_, reward::RewardSet::create(specs, registry_, device_.source(), globals_.log()));
        const auto gold = std::ranges::find(specs, a_.gold, &reward::RewardSpec::name);
        gold_ = static_cast<std::size_t>(gold - specs.begin());
        infer::LikelihoodOptions options;
        options.temperature = recipe_.rollout.temperature;
        options.stop = stop_;
        HK_ASSIGN(reference_likelihood_, infer::Likelihood::create(infer::network_of(reference_), options));
        return {};
    }

    // Measures a model by its own completions.
    Result<FrontierPoint> measure(const NamedFolder& run) {
        HK_ASSIGN(const infer::Model model, open_model(run.folder.string()));
        if (model.tokenizer->hash() != reference_.tokenizer->hash())
            return invalid_argument(fmt::format("{}: has another tokenizer than the reference, so their tokens cannot "
                                                "be compared",
                                                run.folder.string()));
        HK_ASSIGN(const std::vector<SampledText> texts, sample(model, run.name, a_.per_prompt));
        HK_ASSIGN(const reward::Scores scores, score_completions(rewards_, *prompts_, texts, a_.per_prompt));
        std::vector<infer::LikelihoodRow> rows;
        for (std::size_t i = 0; i < texts.size(); ++i) {
            infer::LikelihoodRow& row = rows.emplace_back();
            row.ids = prompts_->ids[i / static_cast<std::size_t>(a_.per_prompt)];
            row.from = row.ids.size();
            row.ids.insert(row.ids.end(), texts[i].ids.begin(), texts[i].ids.end());
        }
        infer::LikelihoodOptions options;
        options.temperature = recipe_.rollout.temperature;
        options.stop = stop_;
        HK_ASSIGN(const auto likelihood, infer::Likelihood::create(infer::network_of(model), options));
        HK_ASSIGN(const std::vector<infer::RowLikelihood> own, likelihood->run(rows));
        HK_ASSIGN(const std::vector<infer::RowLikelihood> theirs, reference_likelihood_->run(rows));
        FrontierPoint p;
        for (std::size_t i = 0; i < own.size(); ++i)
            p.kl += (own[i].sum - theirs[i].sum) / static_cast<double>(own.size());
        const MeanScore gold = mean_score(scores.of_rewards[gold_]);
        if (gold.count == 0)
            return failed_precondition(fmt::format("{}: the reward '{}' could score none of {} completions",
                                                   run.folder.string(), a_.gold, texts.size()));
        p.gold = gold.mean, p.error = gold.error, p.texts = gold.count;
        p.trained = mean_score(scores.total).mean;
        return p;
    }

    // Chooses the best of n completions of the reference by the recipe's score. The divergence of that choice is
    // log n - (n - 1) / n (Stiennon et al. 2020), exact where no two completions are equal.
    Result<std::vector<FrontierPoint>> best_of(const std::vector<int64_t>& numbers) {
        const int64_t most = *std::ranges::max_element(numbers);
        HK_ASSIGN(const std::vector<SampledText> texts, sample(reference_, "the reference", most));
        HK_ASSIGN(const reward::Scores scores, score_completions(rewards_, *prompts_, texts, most));
        std::vector<FrontierPoint> points;
        for (const int64_t n : numbers) {
            std::vector<double> gold, chosen_by;
            for (std::size_t i = 0; i < prompts_->size(); ++i) {
                std::optional<std::size_t> best;
                for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
                    const std::size_t at = i * static_cast<std::size_t>(most) + j;
                    const double score = scores.total[at] - (texts[at].ended ? 0.0 : penalty());
                    if (!std::isnan(score) &&
                        (!best || score > scores.total[*best] - (texts[*best].ended ? 0.0 : penalty())))
                        best = at;
                }
                if (!best) continue;
                gold.push_back(scores.of_rewards[gold_][*best]);
                chosen_by.push_back(scores.total[*best]);
            }
            const MeanScore mean = mean_score(gold);
            if (mean.count == 0)
                return failed_precondition(
                    fmt::format("the reward '{}' could score none of the best of {} completions", a_.gold, n));
            FrontierPoint& p = points.emplace_back();
            const auto count = static_cast<double>(n);
            p.kl = std::log(count) - (count - 1.0) / count;
            p.gold = mean.mean, p.error = mean.error, p.texts = mean.count, p.number = n;
            p.trained = mean_score(chosen_by).mean;
        }
        return points;
    }

private:
    double penalty() const { return recipe_.rollout.missing_eos_penalty; }

    Result<infer::Model> open_model(const std::string& folder) {
        infer::ModelOptions options;
        options.head = "lm";
        HK_ASSIGN(infer::Model model, infer::open_model(registry_, device_.source(), folder, options, globals_.log()));
        if (model.tokenizer == nullptr)
            return invalid_argument(fmt::format("{}: has no tokenizer, so it reads no prompts", folder));
        return model;
    }

    Result<std::vector<SampledText>> sample(const infer::Model& model, const std::string& name, int64_t per_prompt) {
        ShownProgress progress;
        SamplingOptions sampling;
        sampling.per_prompt = per_prompt;
        sampling.length = recipe_.rollout.response_length;
        sampling.temperature = recipe_.rollout.temperature;
        sampling.seed = static_cast<uint64_t>(recipe_.train.seed);
        sampling.ends = recipe_.rollout.stop_token == "eos";
        sampling.stop = stop_;
        sampling.progress = [&](std::size_t done, std::size_t all) {
            progress.show(fmt::format("{}: {} of {} completions", name, done, all));
        };
        return sample_completions(model, *prompts_, sampling);
    }

    const Globals& globals_;
    const FrontierArguments& a_;
    const train::Recipe& recipe_;
    plugin::Registry registry_;
    DeviceOnDemand device_;
    StopPoll stop_{[] { return interrupted(); }};
    infer::Model reference_;
    std::unique_ptr<infer::Likelihood> reference_likelihood_;
    std::unique_ptr<Prompts> prompts_;
    reward::RewardSet rewards_;
    std::size_t gold_ = 0;
};

Result<int> frontier(const Globals& globals, const FrontierArguments& a) {
    HK_ASSIGN(const train::Recipe recipe, train::read_recipe(a.recipe, a.overrides));
    if (!recipe.rewards.contains(a.gold)) {
        std::vector<std::string> names;
        for (const auto& [name, section] : recipe.rewards) names.push_back(name);
        return invalid_argument(fmt::format("--gold {}: {} has no [rewards.{}]; it has {}", a.gold, a.recipe, a.gold,
                                            names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    if (a.runs.empty() && a.best_of.empty())
        return invalid_argument("nothing to draw: give --run FOLDER or --best-of N");
    HK_TRY(check_output_folder(a.output));
    std::set<std::string> names;
    watch_interrupts(kStoppedEarly);
    std::vector<FrontierSeries> all;
    std::unique_ptr<FrontierMeter> meter; // where a model is measured
    const auto needs_meter = [&]() -> Status {
        if (meter != nullptr) return {};
        meter = std::make_unique<FrontierMeter>(globals, a, recipe);
        return meter->open();
    };
    for (const std::string& given : a.runs) {
        const NamedFolder run = named_folder(given);
        if (!names.insert(run.name).second)
            return invalid_argument(
                fmt::format("--run {}: another run has the name '{}': give it one with NAME=FOLDER", given, run.name));
        std::error_code problem;
        if (!fs::is_directory(run.folder, problem))
            return not_found(fmt::format("--run {}: there is no folder {}", given, run.folder.string()));
        std::vector<FrontierPoint> points;
        if (const fs::path log = run.folder / "train_log.jsonl"; fs::exists(log, problem)) {
            HK_ASSIGN(points, points_of_log(log, a.gold));
        }
        if (!points.empty()) {
            all.push_back({run.name, "run", std::move(points)});
            continue;
        }
        HK_TRY(needs_meter());
        HK_ASSIGN(const FrontierPoint point, meter->measure(run));
        all.push_back({run.name, "model", {point}});
    }
    if (!a.best_of.empty()) {
        HK_TRY(needs_meter());
        std::vector<int64_t> numbers = a.best_of;
        numbers.push_back(1); // the reference itself
        std::ranges::sort(numbers);
        numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
        HK_ASSIGN(std::vector<FrontierPoint> points, meter->best_of(numbers));
        all.push_back({"best of n", "best_of", std::move(points)});
    }
    const fs::path folder = a.output;
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem) return io_error(fmt::format("{}: cannot be made: {}: choose another -o", a.output, problem.message()));
    const std::string axis = fmt::format("reward '{}'", a.gold);
    HK_TRY(write_file_atomically(folder / "frontier.json", frontier_json(a.gold, all).dump(1) + "\n"));
    HK_TRY(write_file_atomically(folder / "frontier.svg",
                                 frontier_svg(fmt::format("Reward and distance: {}", a.recipe), axis, all)));
    fmt::print("{}", frontier_table(axis, all));
    return kDone;
}

} // namespace

void add_frontier(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "frontier",
        "Draw a reward over the KL divergence from the reference, for runs of ppo and grpo, other models of "
        "the same tokenizer, and the best of n completions.");
    const auto a = std::make_shared<FrontierArguments>();
    parser
        ->add_option("recipe", a->recipe,
                     "recipe file (TOML) or the folder of a run of ppo or grpo: its prompts, rewards, reference and "
                     "[rollout] are used")
        ->required();
    parser->add_option("overrides", a->overrides, "recipe keys to override: train.seed=2");
    parser
        ->add_option("--gold", a->gold,
                     "the NAME of [rewards.NAME] that is drawn; with weight = 0 it is not trained by")
        ->required();
    parser
        ->add_option("--run", a->runs,
                     "[NAME=]FOLDER: a run of ppo or grpo, whose log is read, or another model, whose completions are "
                     "measured; may be given several times")
        ->allow_extra_args(false);
    parser
        ->add_option("--best-of", a->best_of,
                     "N: the best of N completions of the reference, by the recipe's score; may be given several times")
        ->allow_extra_args(false)
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
    parser->add_option("--per-prompt", a->per_prompt, "completions of each prompt that measure a model")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 16))
        ->capture_default_str();
    parser->add_option("--limit", a->limit, "prompts at most, evenly spaced; 0: all")
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
        ->capture_default_str();
    parser->add_option("-o,--output", a->output, "folder for frontier.svg and frontier.json")->required();
    parser->footer("Example: hekla frontier ppo.toml --gold lexicon --run out/ppo --run DPO=out/dpo --best-of 4 "
                   "--best-of 16 -o out/frontier");
    verbs.push_back({parser, [&globals, a] { return finish(frontier(globals, *a)); }});
}

} // namespace hekla::app
