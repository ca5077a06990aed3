#include "scaling_scores.hpp"

#include "base/markup.hpp"
#include "base/number_text.hpp"
#include "pages/page.hpp"
#include "pages/score_chart.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace hekla::app {
namespace {

using harness::Score;
using harness::TaskResult;
using nlohmann::ordered_json;
using scaling::Point;
using scaling::Trend;
using scaling::TrendScore;

std::string whole_number(double value) { return grouped(std::round(value)); }

} // namespace

struct ScalingScores::Column {
    std::size_t result = 0, score = 0; // of each model
    std::string name;                  // "copying, 2 shots: acc"
    const TaskResult* task = nullptr;  // of the first model
    const Score* first = nullptr;      // of the first model
    scaling::FoundTrend trend;
};

ScalingScores::ScalingScores(std::vector<Point> points, std::vector<EvaluatedModel> models) {
    std::vector<std::size_t> order(points.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return points[i].known_flops(); });
    for (const std::size_t i : order) {
        points_.push_back(std::move(points[i]));
        points_.back().flops = points_.back().known_flops();
        models_.push_back(std::move(models[i]));
    }
}

std::vector<ScalingScores::Column> ScalingScores::columns() const {
    std::vector<Column> all;
    for (std::size_t t = 0; t < models_[0].results.size(); ++t) {
        const TaskResult& result = models_[0].results[t];
        for (std::size_t s = 0; s < result.scores.size(); ++s) {
            Column column{t, s, "", &result, &result.scores[s], {}};
            column.name = fmt::format("{}{}: {}{}", result.task.name,
                                      result.num_fewshot > 0 ? fmt::format(", {} shots", result.num_fewshot) : "",
                                      column.first->metric,
                                      column.first->filter == "none" ? "" : " (" + column.first->filter + ")");
            std::vector<TrendScore> scores;
            for (const EvaluatedModel& model : models_) {
                const Score& one = model.results[t].scores[s];
                scores.push_back({one.value, one.error.value_or(0.0)});
            }
            column.trend = trend_of(scores, column.first->higher_is_better);
            all.push_back(std::move(column));
        }
    }
    return all;
}

std::string ScalingScores::table() const {
    std::string text;
    for (const Column& column : columns()) {
        text += fmt::format("{} {}: {}", column.name, column.first->higher_is_better ? "↑" : "↓",
                            trend_name(column.trend.trend));
        if (column.trend.trend == Trend::emergence)
            text += fmt::format(" at {} ({:.3g} FLOPs)", points_[column.trend.at].name, points_[column.trend.at].flops);
        text += "\n";
        for (std::size_t i = 0; i < points_.size(); ++i)
            text += fmt::format("  {:<24} {:>12} {:>12} {:>10.3g} {:>8.4f}  {}\n", points_[i].name,
                                whole_number(points_[i].parameters), whole_number(points_[i].tokens), points_[i].flops,
                                points_[i].loss, score_text(models_[i].results[column.result].scores[column.score]));
    }
    return fmt::format("{:<26} {:>12} {:>12} {:>10} {:>8}  {}\n", "model", "parameters", "tokens", "FLOPs", "loss",
                       "score") +
           text;
}

ordered_json ScalingScores::json() const {
    ordered_json runs = ordered_json::array(), scores = ordered_json::array();
    for (const Point& p : points_)
        runs.push_back({{"name", p.name},
                        {"parameters", p.parameters},
                        {"tokens", p.tokens},
                        {"flops", p.flops},
                        {"loss", p.loss}});
    const auto number = [](double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(); };
    for (const Column& column : columns()) {
        ordered_json one{{"task", column.task->task.name},
                         {"num_fewshot", column.task->num_fewshot},
                         {"metric", column.first->metric},
                         {"filter", column.first->filter},
                         {"higher_is_better", column.first->higher_is_better},
                         {"trend", trend_name(column.trend.trend)}};
        if (column.trend.trend == Trend::emergence) one["emerges_at"] = points_[column.trend.at].name;
        for (const EvaluatedModel& model : models_) {
            const Score& score = model.results[column.result].scores[column.score];
            one["values"].push_back(number(score.value));
            one["stderr"].push_back(score.error ? number(*score.error) : ordered_json());
        }
        scores.push_back(std::move(one));
    }
    return {{"models", std::move(runs)}, {"scores", std::move(scores)}};
}

std::string ScalingScores::picture(const Column& column) const {
    std::map<double, ScoreLine> lines; // by tokens
    for (std::size_t i = 0; i < points_.size(); ++i) {
        const Score& score = models_[i].results[column.result].scores[column.score];
        ScoreLine& line = lines[points_[i].tokens];
        line.name = whole_number(points_[i].tokens) + " tokens";
        line.points.push_back({points_[i].parameters, score.value, score.error.value_or(0.0)});
    }
    std::vector<ScoreLine> sorted;
    for (auto& [tokens, line] : lines) {
        std::ranges::sort(line.points, {}, &ScorePoint::x);
        sorted.push_back(std::move(line));
    }
    return score_chart(sorted,
                       {"parameters", fmt::format("{}: {}", column.task->task.name, column.first->metric), true});
}

std::vector<std::pair<std::string, std::string>> ScalingScores::pictures() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const Column& column : columns()) {
        std::string name = fmt::format("{}-{}-shot-{}-{}", column.task->task.name, column.task->num_fewshot,
                                       column.first->metric, column.first->filter);
        std::ranges::replace_if(
            name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; }, '_');
        all.emplace_back(name + ".svg", picture(column));
    }
    return all;
}

std::string ScalingScores::page(const std::string& title) const {
    const std::vector<Column> all = columns();
    std::string table =
        "<table><tr><th>score</th><th></th><th>smallest model</th><th>largest model</th><th>trend</th></tr>";
    std::string pictures;
    for (const Column& column : all) {
        const auto cell = [&](const EvaluatedModel& model) {
            return score_text(model.results[column.result].scores[column.score]);
        };
        const std::string at = column.trend.trend == Trend::emergence ? " at " + points_[column.trend.at].name : "";
        table +=
            fmt::format("<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
                        "<td>{}{}</td></tr>",
                        escape_markup(column.name), column.first->higher_is_better ? "↑" : "↓", cell(models_.front()),
                        cell(models_.back()), trend_name(column.trend.trend), escape_markup(at));
        pictures +=
            fmt::format("<figure><figcaption>{}</figcaption>{}</figure>", escape_markup(column.name), picture(column));
    }
    table += "</table><p>Smallest and largest by FLOPs. A difference counts if it is more than two standard errors. "
             "Emerges: no difference that counts up to a model, and at least half of the whole difference in one step. "
             "Worse with size: inverse scaling.</p>";
    std::string models = "<table><tr><th>model</th><th>parameters</th><th>tokens</th><th>FLOPs</th><th>loss</th></tr>";
    for (const Point& p : points_)
        models +=
            fmt::format("<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
                        "<td class=\"number\">{:.3g}</td><td class=\"number\">{:.4f}</td></tr>",
                        escape_markup(p.name), whole_number(p.parameters), whole_number(p.tokens), p.flops, p.loss);
    const std::string sections = section("Scores over size", table) +
                                 section("Pictures", "<div class=\"diagrams\">" + pictures + "</div>") +
                                 section("Models", models + "</table>");
    return fill_page("evaluation.html", {{"TITLE", escape_markup(title)},
                                         {"PAGE_CSS", page_file("page.css")},
                                         {"CSS", page_file("evaluation.css")},
                                         {"DATA", "scores of tasks over the models of a ladder"},
                                         {"SECTIONS", sections}});
}

} // namespace hekla::app
