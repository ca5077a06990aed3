#include "frontier_chart.hpp"

#include "base/chart.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

double root(const FrontierPoint& point) { return std::sqrt(std::max(point.kl, 0.0)); }

std::string tip_of(const FrontierSeries& series, const FrontierPoint& point) {
    return fmt::format("{}{}: KL {:.3g}, gold {:.4g}", series.name,
                       series.kind == "run"       ? fmt::format(", step {}", point.number)
                       : series.kind == "best_of" ? fmt::format(" of {}", point.number)
                                                  : std::string(),
                       point.kl, point.gold);
}

} // namespace

ordered_json frontier_json(const std::string& gold, const std::vector<FrontierSeries>& all) {
    ordered_json series = ordered_json::array();
    for (const FrontierSeries& one : all) {
        ordered_json points = ordered_json::array();
        for (const FrontierPoint& p : one.points) {
            ordered_json point{{"kl", p.kl}, {"gold", p.gold}, {"trained", p.trained}};
            if (p.error > 0.0) point["gold_stderr"] = p.error;
            if (p.texts > 0) point["texts"] = p.texts;
            if (p.number > 0) point[one.kind == "best_of" ? "n" : "step"] = p.number;
            points.push_back(std::move(point));
        }
        series.push_back({{"name", one.name}, {"kind", one.kind}, {"points", std::move(points)}});
    }
    return {{"gold", gold}, {"series", std::move(series)}};
}

std::string frontier_svg(const std::string& title, const std::string& gold, const std::vector<FrontierSeries>& all) {
    ChartLayout layout{.title = title, .width = 760, .height = 340, .left = 76};
    for (const FrontierSeries& one : all) {
        Stroke stroke = series_stroke(layout.legend.size());
        if (one.kind == "best_of") stroke.dash = "5 4";
        layout.legend.emplace_back(one.name, stroke);
    }
    Chart chart(layout);
    chart.x.include(0.0);
    chart.x.include(0.1);
    for (const FrontierSeries& one : all)
        for (const FrontierPoint& p : one.points) {
            chart.x.include(root(p) * 1.04);
            chart.y.include(p.gold - p.error);
            chart.y.include(p.gold + p.error);
        }
    chart.y.widen(0.08);
    chart.draw_axes({.name = "square root of the KL divergence from the reference (nats of a text)"}, {.name = gold});
    for (std::size_t s = 0; s < all.size(); ++s) {
        const FrontierSeries& one = all[s];
        const Stroke& stroke = layout.legend[s].second;
        std::vector<std::pair<double, double>> line;
        for (const FrontierPoint& p : one.points) line.emplace_back(root(p), p.gold);
        if (line.size() > 1) chart.line(line, stroke);
        for (const FrontierPoint& p : one.points) {
            if (p.error > 0.0 && one.kind != "run")
                chart.interval(root(p), p.gold - p.error, p.gold + p.error, stroke.color);
            const bool is_large = one.kind != "run" || &p == &one.points.back();
            chart.dot(root(p), p.gold, stroke.color, is_large ? 4.2 : 2.0, tip_of(one, p));
            if (one.kind == "best_of") chart.label(root(p), p.gold, fmt::format("{}", p.number));
        }
    }
    return chart.finish();
}

std::string frontier_table(const std::string& gold, const std::vector<FrontierSeries>& all) {
    std::string out = fmt::format("| | KL | {} | stderr | trained by |\n|---|---:|---:|---:|---:|\n", gold);
    for (const FrontierSeries& one : all) {
        if (one.points.empty()) continue;
        const auto line = [&](const std::string& name, const FrontierPoint& p) {
            out += fmt::format("| {} | {:.4g} | {:.4g} | {} | {:.4g} |\n", name, p.kl, p.gold,
                               p.error > 0.0 ? fmt::format("{:.2g}", p.error) : "", p.trained);
        };
        if (one.kind == "best_of") {
            for (const FrontierPoint& p : one.points) line(fmt::format("best of {}", p.number), p);
            continue;
        }
        const auto best = std::ranges::max_element(one.points, {}, &FrontierPoint::gold);
        if (one.points.size() > 1) line(fmt::format("{}, best, to step {}", one.name, best->number), *best);
        line(one.points.size() > 1 ? one.name + ", last" : one.name, one.points.back());
    }
    return out;
}

} // namespace hekla::app
