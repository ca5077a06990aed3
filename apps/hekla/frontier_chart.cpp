#include "frontier_chart.hpp"

#include "base/svg.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

constexpr double kFrontierWidth = 760, kFrontierHeight = 460, kFrontierLeft = 76, kFrontierRight = 24,
                 kFrontierBottom = 52;
constexpr const char* kSeriesColors[] = {"#1f5fa8", "#c8501e", "#3d8f5f", "#8a4fa3",
                                         "#b58900", "#4a4a4a", "#0f8b8d", "#a8326e"};

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
    double most_x = 0.1, low = std::numeric_limits<double>::infinity(), high = -low;
    std::size_t rows = 1;
    double legend = kFrontierLeft;
    const auto legend_width = [](const FrontierSeries& one) { return 44 + 7.2 * static_cast<double>(one.name.size()); };
    for (const FrontierSeries& one : all) {
        if (legend + legend_width(one) > kFrontierWidth - kFrontierRight && legend > kFrontierLeft)
            legend = kFrontierLeft, ++rows;
        legend += legend_width(one);
        for (const FrontierPoint& p : one.points) {
            most_x = std::max(most_x, root(p));
            low = std::min(low, p.gold - p.error), high = std::max(high, p.gold + p.error);
        }
    }
    if (!(low <= high)) low = 0.0, high = 1.0;
    const double margin = std::max((high - low) * 0.08, 1e-3);
    low -= margin, high += margin, most_x *= 1.04;
    const double top = 44 + 18 * static_cast<double>(rows);
    const auto x = [&](double value) {
        return kFrontierLeft + value / most_x * (kFrontierWidth - kFrontierLeft - kFrontierRight);
    };
    const auto y = [&](double value) {
        return kFrontierHeight - kFrontierBottom -
               (value - low) / (high - low) * (kFrontierHeight - kFrontierBottom - top);
    };
    SvgWriter svg(kFrontierWidth, kFrontierHeight, "sans-serif", 12);
    svg.text(kFrontierLeft, 24, title, "font-size=\"15\" fill=\"#222\"");
    const double step_x = tidy_step(most_x, 8), step_y = tidy_step(high - low, 7);
    for (int i = 0; static_cast<double>(i) * step_x <= most_x; ++i) {
        const double value = static_cast<double>(i) * step_x;
        svg.line(x(value), top, x(value), kFrontierHeight - kFrontierBottom, "stroke=\"#f0f0f0\"");
        svg.text(x(value), kFrontierHeight - kFrontierBottom + 18, fmt::format("{:.4g}", value),
                 "text-anchor=\"middle\" fill=\"#555\"");
    }
    for (double value = std::ceil(low / step_y) * step_y; value <= high; value += step_y) {
        svg.line(kFrontierLeft, y(value), kFrontierWidth - kFrontierRight, y(value), "stroke=\"#e4e4e4\"");
        svg.text(kFrontierLeft - 8, y(value) + 4, fmt::format("{:.4g}", std::abs(value) < 1e-9 ? 0.0 : value),
                 "text-anchor=\"end\" fill=\"#555\"");
    }
    svg.text((kFrontierLeft + kFrontierWidth - kFrontierRight) / 2, kFrontierHeight - 12,
             "square root of the KL divergence from the reference (nats of a text)",
             "text-anchor=\"middle\" fill=\"#555\"");
    svg.text_upwards(18, (top + kFrontierHeight - kFrontierBottom) / 2, gold, "text-anchor=\"middle\" fill=\"#555\"");
    legend = kFrontierLeft;
    double row = 46;
    for (std::size_t s = 0; s < all.size(); ++s) {
        const FrontierSeries& one = all[s];
        const std::string color = kSeriesColors[s % std::size(kSeriesColors)];
        if (legend + legend_width(one) > kFrontierWidth - kFrontierRight && legend > kFrontierLeft)
            legend = kFrontierLeft, row += 18;
        svg.line(legend, row, legend + 18, row, fmt::format("stroke=\"{}\" stroke-width=\"3\"", color));
        svg.text(legend + 23, row + 4, one.name, "fill=\"#333\"");
        legend += legend_width(one);
        std::string path;
        for (const FrontierPoint& p : one.points)
            path += fmt::format("{}{} {}", path.empty() ? "M" : "L", svg_number(x(root(p))), svg_number(y(p.gold)));
        if (one.points.size() > 1)
            svg.path(path, fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{}", color,
                                       one.kind == "best_of" ? " stroke-dasharray=\"5 4\"" : ""));
        for (std::size_t i = 0; i < one.points.size(); ++i) {
            const FrontierPoint& p = one.points[i];
            if (p.error > 0.0 && one.kind != "run")
                svg.line(x(root(p)), y(p.gold - p.error), x(root(p)), y(p.gold + p.error),
                         fmt::format("stroke=\"{}\" stroke-width=\"1.4\"", color));
            const bool last = i + 1 == one.points.size();
            svg.open_group("", tip_of(one, p));
            svg.circle(x(root(p)), y(p.gold), one.kind != "run" || last ? 4.2 : 2.0, fmt::format("fill=\"{}\"", color));
            svg.close_group();
            if (one.kind == "best_of")
                svg.text(x(root(p)) + 7, y(p.gold) + 14, fmt::format("{}", p.number), "fill=\"#666\" font-size=\"11\"");
        }
    }
    return std::move(svg).finish();
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
