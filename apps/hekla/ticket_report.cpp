#include "ticket_report.hpp"

#include "base/json.hpp"
#include "base/markup.hpp"
#include "base/number_text.hpp"
#include "base/svg.hpp"
#include "pages/page.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

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

std::string percent(double share) { return fmt::format("{:.1f}%", 100.0 * share); }

// Maps shares to x, logarithmic and falling to the right, and losses to y.
struct Axes {
    static constexpr double kWidth = 860, kHeight = 460, kLeft = 64, kRight = 24, kTop = 72, kBottom = 52;
    double least_share = 1.0, low = 0.0, high = 1.0;

    double x(double share) const { return kLeft + std::log(share) / std::log(least_share) * (kWidth - kLeft - kRight); }
    double y(double loss) const { return kTop + (high - loss) / (high - low) * (kHeight - kTop - kBottom); }
};

void draw_grid(SvgWriter& svg, const Axes& axes, const std::set<double, std::greater<>>& shares) {
    const double right = Axes::kWidth - Axes::kRight, bottom = Axes::kHeight - Axes::kBottom;
    const double step = tidy_step(axes.high - axes.low, 6);
    for (double loss = std::ceil(axes.low / step) * step; loss <= axes.high; loss += step) {
        svg.line(Axes::kLeft, axes.y(loss), right, axes.y(loss), "stroke=\"#e4e4e4\"");
        svg.text(Axes::kLeft - 8, axes.y(loss) + 4, fmt::format("{:.6g}", std::abs(loss) < step * 1e-6 ? 0.0 : loss),
                 "text-anchor=\"end\" fill=\"#555\"");
    }
    constexpr double kLabel = 46; // pixels that a label needs
    double next = Axes::kLeft;
    for (const double share : shares) {
        svg.line(axes.x(share), Axes::kTop, axes.x(share), bottom, "stroke=\"#f0f0f0\"");
        if (axes.x(share) < next - 0.01) continue;
        svg.text(axes.x(share), bottom + 18, percent(share), "text-anchor=\"middle\" fill=\"#555\"");
        next = axes.x(share) + kLabel;
    }
    svg.text((Axes::kLeft + right) / 2, Axes::kHeight - 10, "prunable weights that are left (logarithmic)",
             "text-anchor=\"middle\" fill=\"#555\"");
    svg.text_upwards(16, (Axes::kTop + bottom) / 2, "validation loss", "text-anchor=\"middle\" fill=\"#555\"");
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
                            percent(point.share()), point.mean(),
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
    SvgWriter svg(Axes::kWidth, Axes::kHeight, "sans-serif", 12);
    svg.text(Axes::kLeft, 24, title, "font-size=\"15\" fill=\"#222\"");
    const std::vector<Point> all = points();
    if (all.empty()) {
        svg.text(Axes::kLeft, 80, "no round is finished yet", "fill=\"#666\"");
        return std::move(svg).finish();
    }
    Axes axes;
    axes.low = 1e300;
    axes.high = -1e300;
    std::set<double, std::greater<>> shares;
    for (const Point& point : all) {
        shares.insert(point.share());
        axes.low = std::min(axes.low, point.mean() - point.deviation());
        axes.high = std::max(axes.high, point.mean() + point.deviation());
    }
    axes.least_share = std::min(*shares.rbegin(), 0.99);
    const double margin = std::max((axes.high - axes.low) * 0.08, 1e-6);
    axes.low -= margin;
    axes.high += margin;
    draw_grid(svg, axes, shares);
    double legend = Axes::kLeft;
    const auto explain = [&](const std::string& name, const std::string& stroke) {
        svg.line(legend, 46, legend + 24, 46, stroke);
        svg.text(legend + 30, 50, name, "fill=\"#333\"");
        legend += 60 + 7.0 * static_cast<double>(name.size());
    };
    if (all.front().round == 0) {
        const std::string dashed = "stroke=\"#777\" stroke-width=\"1.2\" stroke-dasharray=\"5 4\"";
        const double y = axes.y(all.front().mean());
        svg.line(Axes::kLeft, y, Axes::kWidth - Axes::kRight, y, dashed);
        explain(fmt::format("before pruning ({:.4f})", all.front().mean()), dashed);
    }
    for (const TicketKind kind : kTicketKinds) {
        const Style style = style_of(kind);
        std::string path;
        for (const Point& point : all) {
            // The controls begin where the ticket does.
            if (point.kind != kind && !(point.round == 0 && std::ranges::count(all, kind, &Point::kind) > 0)) continue;
            const double x = axes.x(point.share());
            path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, axes.y(point.mean()));
        }
        if (path.empty()) continue;
        svg.path(path, fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"",
                                   style.color));
        for (const Point& point : all) {
            if (point.kind != kind) continue;
            const double x = axes.x(point.share()), mean = point.mean(), deviation = point.deviation();
            const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"1.2\"", style.color);
            if (deviation > 0.0) svg.line(x, axes.y(mean - deviation), x, axes.y(mean + deviation), stroke);
            svg.open_group("", fmt::format("{}, round {}: {} of the weights, loss {:.4f}", style.name, point.round,
                                           percent(point.share()), mean));
            svg.circle(x, axes.y(mean), 3.4, fmt::format("fill=\"{}\"", style.color));
            svg.close_group();
        }
        explain(style.name, fmt::format("stroke=\"{}\" stroke-width=\"3\"", style.color));
    }
    return std::move(svg).finish();
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
                        grouped(static_cast<double>(point.kept)), percent(point.share()), point.mean(),
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
