#include "ticket_report.hpp"

#include "base/chart.hpp"
#include "base/json.hpp"
#include "base/markup.hpp"
#include "base/number_text.hpp"
#include "pages/page.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

struct Style {
    const char* name;
    const char* color;
};

Style style_of(TicketKind kind) {
    switch (kind) {
    case TicketKind::random_mask: return {"random mask", "#c8501e"};
    case TicketKind::random_init: return {"random weights", "#3d8f5f"};
    case TicketKind::ticket: break;
    }
    return {"ticket", "#1f5fa8"};
}

// Returns how a run is called in tables.
const char* run_name(TicketKind kind, int64_t round, double share) {
    return round > 0 ? style_of(kind).name : share < 1.0 ? "given mask" : "dense";
}

} // namespace

const char* kind_name(TicketKind kind) {
    switch (kind) {
    case TicketKind::random_mask: return "random_mask";
    case TicketKind::random_init: return "random_init";
    case TicketKind::ticket: break;
    }
    return "ticket";
}

ordered_json TicketResult::json() const {
    return {{"kind", kind_name(kind)}, {"seed", seed}, {"round", round}, {"kept", kept},
            {"weights", weights},      {"loss", loss}, {"best", best},   {"best_step", best_step},
            {"steps", steps}};
}

Result<TicketResult> ticket_result(const std::string& text, const std::string& where) {
    const ordered_json record = ordered_json_or_null(text);
    TicketResult result;
    try {
        const std::string kind = record.at("kind").get<std::string>();
        const auto found = std::ranges::find_if(kTicketKinds, [&](TicketKind one) { return kind == kind_name(one); });
        if (found == std::end(kTicketKinds)) throw std::out_of_range(kind);
        result.kind = *found;
        result.seed = record.at("seed").get<int64_t>();
        result.round = record.at("round").get<int64_t>();
        result.kept = record.at("kept").get<int64_t>();
        result.weights = record.at("weights").get<int64_t>();
        result.loss = record.at("loss").get<double>();
        result.best = record.at("best").get<double>();
        result.best_step = record.at("best_step").get<int64_t>();
        result.steps = record.at("steps").get<int64_t>();
    } catch (const std::exception&) { result.weights = 0; }
    if (result.kept <= 0 || result.kept > result.weights || !std::isfinite(result.loss))
        return corrupt(
            fmt::format("{}: is not the result of a round: remove it, and the round is evaluated again", where));
    return result;
}

double TicketReport::Point::mean() const {
    double sum = 0.0;
    for (const TicketResult& run : runs) sum += run.loss;
    return sum / static_cast<double>(runs.size());
}

double TicketReport::Point::deviation() const {
    double squares = 0.0;
    for (const TicketResult& run : runs) squares += (run.loss - mean()) * (run.loss - mean());
    return runs.size() > 1 ? std::sqrt(squares / static_cast<double>(runs.size() - 1)) : 0.0;
}

std::vector<TicketReport::Point> TicketReport::points() const {
    std::map<std::pair<int64_t, TicketKind>, Point> all;
    for (const TicketResult& result : results_) {
        Point& point = all[{result.round, result.kind}];
        point.kind = result.kind;
        point.round = result.round;
        point.kept = result.kept;
        point.weights = result.weights;
        point.runs.push_back(result);
    }
    std::vector<Point> points;
    for (auto& [key, point] : all) points.push_back(std::move(point));
    return points;
}

std::string TicketReport::table() const {
    const bool seeds = std::ranges::any_of(points(), [](const Point& point) { return point.runs.size() > 1; });
    std::string text = fmt::format("round  {:<14}  {:>15}  {:>6}  {:>8}{}  {:>8}  {:>7}\n", "run", "weights left",
                                   "share", "loss", seeds ? "  deviation" : "", "best", "at step");
    for (const Point& point : points()) {
        double best = 0.0, step = 0.0;
        for (const TicketResult& run : point.runs) {
            best += run.best / static_cast<double>(point.runs.size());
            step += static_cast<double>(run.best_step) / static_cast<double>(point.runs.size());
        }
        text += fmt::format("{:>5}  {:<14}  {:>15}  {:>6}  {:>8.4f}{}  {:>8.4f}  {:>7.0f}\n", point.round,
                            run_name(point.kind, point.round, point.share()), grouped(static_cast<double>(point.kept)),
                            percent_text(point.share()), point.mean(),
                            seeds ? fmt::format("  {:>9.4f}", point.deviation()) : "", best, step);
    }
    return text;
}

ordered_json TicketReport::json() const {
    ordered_json rounds = ordered_json::array();
    for (const Point& point : points()) {
        ordered_json runs = ordered_json::array();
        for (const TicketResult& run : point.runs)
            runs.push_back({{"seed", run.seed},
                            {"loss", run.loss},
                            {"best", run.best},
                            {"best_step", run.best_step},
                            {"steps", run.steps}});
        rounds.push_back({{"round", point.round},
                          {"kind", kind_name(point.kind)},
                          {"kept", point.kept},
                          {"weights", point.weights},
                          {"share", point.share()},
                          {"loss", point.mean()},
                          {"deviation", point.deviation()},
                          {"runs", std::move(runs)}});
    }
    return {{"rounds", std::move(rounds)}};
}

std::string TicketReport::svg(const std::string& title) const {
    const std::vector<Point> all = points();
    ChartLayout layout{.title = title};
    const Stroke dense{.color = "#777", .width = 1.2, .dash = "5 4"};
    if (!all.empty() && all.front().round == 0)
        layout.legend.emplace_back(fmt::format("before pruning ({:.4f})", all.front().mean()), dense);
    for (const TicketKind kind : kTicketKinds)
        if (std::ranges::count(all, kind, &Point::kind) > 0)
            layout.legend.emplace_back(style_of(kind).name, Stroke{style_of(kind).color});
    Chart chart(layout);
    if (all.empty()) {
        chart.note("no round is finished yet");
        return chart.finish();
    }
    chart.x.logarithmic = chart.x.falling = true;
    chart.x.include(0.99);
    ChartAxis shares{.name = "prunable weights that are left (logarithmic)",
                     .text = [](double share) { return percent_text(share); }};
    for (const Point& point : all) {
        shares.marks.push_back(point.share());
        chart.x.include(point.share());
        chart.y.include(point.mean() - point.deviation());
        chart.y.include(point.mean() + point.deviation());
    }
    chart.y.widen(0.08);
    chart.draw_axes(shares, {.name = "validation loss"});
    if (all.front().round == 0) chart.horizontal(all.front().mean(), dense);
    for (const TicketKind kind : kTicketKinds) {
        const Style style = style_of(kind);
        std::vector<std::pair<double, double>> line;
        for (const Point& point : all) // the controls begin where the ticket does
            if (point.kind == kind || (point.round == 0 && std::ranges::count(all, kind, &Point::kind) > 0))
                line.emplace_back(point.share(), point.mean());
        chart.line(line, {style.color});
        for (const Point& point : all) {
            if (point.kind != kind) continue;
            const double mean = point.mean(), deviation = point.deviation();
            if (deviation > 0.0) chart.interval(point.share(), mean - deviation, mean + deviation, style.color);
            chart.dot(point.share(), mean, style.color, 3.4,
                      fmt::format("{}, round {}: {} of the weights, loss {:.4f}", style.name, point.round,
                                  percent_text(point.share()), mean));
        }
    }
    return chart.finish();
}

std::string TicketReport::page(const std::string& title, const std::string& recipe) const {
    std::string rows =
        "<table><tr><th>Round</th><th>Run</th><th class=\"number\">Weights left</th>"
        "<th class=\"number\">Share</th><th class=\"number\">Loss</th><th class=\"number\">Deviation</th>"
        "<th class=\"number\">Runs</th></tr>\n";
    for (const Point& point : points())
        rows +=
            fmt::format("<tr><td class=\"number\">{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}"
                        "</td><td class=\"number\">{:.4f}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
                        "</tr>\n",
                        point.round, run_name(point.kind, point.round, point.share()),
                        grouped(static_cast<double>(point.kept)), percent_text(point.share()), point.mean(),
                        point.runs.size() > 1 ? fmt::format("{:.4f}", point.deviation()) : "", point.runs.size());
    rows += "</table>";
    return fill_page(
        "evaluation.html",
        {{"TITLE", escape_markup(title)},
         {"PAGE_CSS", page_file("page.css")},
         {"CSS", page_file("evaluation.css")},
         {"DATA", "Validation loss of the network after each round of pruning, rewinding and training."},
         {"SECTIONS", section("Loss against the weights that are left", svg(title)) + section("Rounds", rows) +
                          section("Recipe", "<pre>" + escape_markup(recipe) + "</pre>")}});
}

} // namespace hekla::app
