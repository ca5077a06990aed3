#include "pages/score_chart.hpp"

#include "base/svg.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace hekla::app {
namespace {

constexpr double kChartWidth = 460.0, kChartHeight = 300.0, kChartLeft = 58.0, kChartRight = 14.0, kChartTop = 12.0,
                 kChartBottom = 46.0;
constexpr const char* kLineColors[] = {"#1f5fa8", "#c8501e", "#3d8f5f", "#8a4fa3", "#b58900", "#4a4a4a"};

std::string x_text(double value) {
    constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
    std::size_t unit = 0;
    for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000.0;
    return fmt::format("{:.3g}{}", value, kUnits[unit]);
}

} // namespace

std::string score_chart(std::span<const ScoreLine> lines, const ScoreAxes& axes) {
    const auto scaled = [&](double x) { return axes.logarithmic_x ? std::log(x) : x; };
    double x_low = 1e300, x_high = -1e300, y_low = 1e300, y_high = -1e300;
    std::set<double> marks;
    for (const ScoreLine& line : lines)
        for (const ScorePoint& p : line.points) {
            if (!std::isfinite(p.y)) continue;
            x_low = std::min(x_low, scaled(p.x)), x_high = std::max(x_high, scaled(p.x));
            y_low = std::min(y_low, p.y - p.error), y_high = std::max(y_high, p.y + p.error);
            marks.insert(p.x);
        }
    if (marks.empty()) x_low = x_high = y_low = y_high = 0.0;
    const auto widen = [](double& low, double& high, double least) {
        const double margin = std::max((high - low) * 0.06, least);
        low -= margin, high += margin;
    };
    widen(x_low, x_high, 0.05);
    widen(y_low, y_high, 1e-3);
    const auto x = [&](double value) {
        return kChartLeft + (scaled(value) - x_low) / (x_high - x_low) * (kChartWidth - kChartLeft - kChartRight);
    };
    const auto y = [&](double value) {
        return kChartHeight - kChartBottom -
               (value - y_low) / (y_high - y_low) * (kChartHeight - kChartTop - kChartBottom);
    };
    const double names_height = lines.size() > 1 ? 18.0 * static_cast<double>(lines.size()) : 0.0;
    SvgWriter svg(kChartWidth, kChartHeight + names_height, "sans-serif", 11.0);
    const double step = tidy_step(y_high - y_low, 6);
    for (double value = std::ceil(y_low / step) * step; value <= y_high; value += step) {
        svg.line(kChartLeft, y(value), kChartWidth - kChartRight, y(value), R"(stroke="#e4e4e4")");
        svg.text(kChartLeft - 6.0, y(value) + 4.0, fmt::format("{:.4g}", std::abs(value) < 1e-9 ? 0.0 : value),
                 R"(text-anchor="end" fill="#66727f")");
    }
    double written = -1e300; // end of the last name of a mark
    for (const double value : marks) {
        if (x(value) - written < 34.0) continue;
        written = x(value);
        svg.text(x(value), kChartHeight - kChartBottom + 17.0, x_text(value), R"(text-anchor="middle" fill="#66727f")");
    }
    svg.text((kChartLeft + kChartWidth - kChartRight) / 2.0, kChartHeight - 8.0, axes.x,
             R"(text-anchor="middle" fill="#333")");
    svg.text_upwards(13.0, (kChartTop + kChartHeight - kChartBottom) / 2.0, axes.y,
                     R"(text-anchor="middle" fill="#333")");
    for (std::size_t l = 0; l < lines.size(); ++l) {
        const char* color = kLineColors[l % std::size(kLineColors)];
        // Colors are used again with dashes.
        const std::string dash = l < std::size(kLineColors)
                                     ? std::string()
                                     : fmt::format(R"( stroke-dasharray="{} 3")", 6 / (l / std::size(kLineColors)) + 1);
        std::string path;
        for (const ScorePoint& p : lines[l].points) {
            if (!std::isfinite(p.y)) continue;
            path += fmt::format("{}{} {}", path.empty() ? "M" : "L", svg_number(x(p.x)), svg_number(y(p.y)));
        }
        if (!path.empty()) svg.path(path, fmt::format(R"(fill="none" stroke="{}" stroke-width="1.6"{})", color, dash));
        for (const ScorePoint& p : lines[l].points) {
            if (!std::isfinite(p.y)) continue;
            if (p.error > 0.0)
                svg.line(x(p.x), y(p.y - p.error), x(p.x), y(p.y + p.error), fmt::format(R"(stroke="{}")", color));
            svg.open_group("", fmt::format("{}: {:.4f}{} at {}", lines[l].name, p.y,
                                           p.error > 0.0 ? fmt::format(" ± {:.4f}", p.error) : "", x_text(p.x)));
            svg.circle(x(p.x), y(p.y), 3.4, fmt::format(R"(fill="{}")", color));
            svg.close_group();
        }
        if (lines.size() < 2) continue;
        const double row = kChartHeight + 18.0 * static_cast<double>(l) + 6.0;
        svg.line(kChartLeft, row, kChartLeft + 18.0, row,
                 fmt::format(R"(stroke="{}" stroke-width="3"{})", color, dash));
        svg.text(kChartLeft + 24.0, row + 4.0, lines[l].name, R"(fill="#333")");
    }
    return std::move(svg).finish();
}

} // namespace hekla::app
