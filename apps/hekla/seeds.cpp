#include "seeds.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/path_text.hpp"
#include "train/recipe/recipe_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>

namespace hekla::app {

Result<std::vector<SeedRun>> seed_runs(const std::string& recipe, const std::vector<std::string>& overrides,
                                       int64_t count) {
    HK_ASSIGN(const train::Recipe read, train::read_recipe(recipe, overrides));
    std::vector<SeedRun> runs;
    for (int64_t i = 0; i < count; ++i) {
        SeedRun run;
        run.seed = read.train.seed + i;
        run.folder = (path_of(read.output.dir) / fmt::format("seed-{}", run.seed)).string();
        run.overrides = overrides;
        run.overrides.push_back(fmt::format("train.seed={}", run.seed));
        run.overrides.push_back("output.dir=" + nlohmann::json(run.folder).dump());
        runs.push_back(std::move(run));
    }
    return runs;
}

Result<Scores> logged_scores(const std::string& folder, bool best) {
    const std::string file = (path_of(folder) / "train_log.jsonl").string();
    HK_ASSIGN(const std::string text, read_file(file));
    std::istringstream lines(text);
    Scores scores;
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::ordered_json record = ordered_json_or_null(line);
        if (!record.is_object() || !record.contains("eval_loss")) continue;
        if (best && !scores.empty() && !record.value("best", false)) continue;
        scores.clear();
        for (const auto& [key, value] : record.items())
            if (key.starts_with("eval_") && key != "eval_seconds" && value.is_number())
                scores.emplace_back(key.substr(5), value.get<double>());
    }
    if (scores.empty())
        return not_found(fmt::format("{}: the run has no evaluation; set train.eval_steps above 0", file));
    return scores;
}

void SeedScores::add(int64_t seed, Scores scores) { seeds_.emplace_back(seed, std::move(scores)); }

std::vector<std::string> SeedScores::names() const {
    std::vector<std::string> all;
    if (seeds_.empty()) return all;
    for (const auto& [name, value] : seeds_.front().second)
        if (values(name).size() == seeds_.size()) all.push_back(name);
    return all;
}

std::vector<double> SeedScores::values(const std::string& name) const {
    std::vector<double> all;
    for (const auto& [seed, scores] : seeds_)
        for (const auto& [known, value] : scores)
            if (known == name) all.push_back(value);
    return all;
}

SeedScores::Summary SeedScores::summary(const std::vector<double>& values) {
    Summary s;
    const auto n = static_cast<double>(values.size());
    for (const double value : values) s.mean += value / n;
    for (const double value : values) s.deviation += (value - s.mean) * (value - s.mean);
    s.deviation = n > 1.0 ? std::sqrt(s.deviation / (n - 1.0)) : 0.0;
    s.least = *std::ranges::min_element(values);
    s.greatest = *std::ranges::max_element(values);
    return s;
}

std::string SeedScores::table() const {
    std::size_t width = 5;
    for (const std::string& name : names()) width = std::max(width, name.size());
    std::string text = fmt::format("{:<{}}", "", width);
    for (const auto& [seed, scores] : seeds_) text += fmt::format("  {:>9}", fmt::format("seed {}", seed));
    text += "       mean  deviation\n";
    for (const std::string& name : names()) {
        const std::vector<double> all = values(name);
        const Summary s = summary(all);
        text += fmt::format("{:<{}}", name, width);
        for (const double value : all) text += fmt::format("  {:9.4f}", value);
        text += fmt::format("  {:9.4f}  {:9.4f}  ({:.4f} to {:.4f})\n", s.mean, s.deviation, s.least, s.greatest);
    }
    return text;
}

nlohmann::ordered_json SeedScores::json() const {
    nlohmann::ordered_json j;
    for (const auto& [seed, scores] : seeds_) j["seeds"].push_back(seed);
    for (const std::string& name : names()) {
        const std::vector<double> all = values(name);
        const Summary s = summary(all);
        j["scores"][name] = {{"values", all},
                             {"mean", s.mean},
                             {"deviation", s.deviation},
                             {"least", s.least},
                             {"greatest", s.greatest}};
    }
    return j;
}

} // namespace hekla::app
