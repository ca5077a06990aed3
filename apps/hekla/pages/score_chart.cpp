#include "pages/score_chart.hpp"

#include "base/chart.hpp"
#include "base/number_text.hpp"

#include <cmath>
#include <fmt/format.h>
#include <set>

namespace hekla::app {

std::string score_chart(std::span<const ScoreLine> lines, const ScoreAxes& axes) {
    ChartLayout layout{.width = 460, .height = 242, .left = 62, .font_size = 11};
    if (lines.size() > 1)
        for (const ScoreLine& line : lines) layout.legend.emplace_back(line.name, series_stroke(layout.legend.size()));
    Chart chart(layout);
    chart.x.logarithmic = axes.logarithmic_x;
    std::set<double> marks;
    for (const ScoreLine& line : lines)
        for (const ScorePoint& p : line.points) {
            if (!std::isfinite(p.y)) continue;
            chart.x.include(p.x);
            chart.y.include(p.y - p.error);
            chart.y.include(p.y + p.error);
            marks.insert(p.x);
        }
    chart.x.widen(0.06);
    chart.y.widen(0.06);
    chart.draw_axes({.name = axes.x, .marks = {marks.begin(), marks.end()}, .text = short_number}, {.name = axes.y});
    for (std::size_t l = 0; l < lines.size(); ++l) {
        const Stroke stroke = series_stroke(l);
        std::vector<std::pair<double, double>> points;
        for (const ScorePoint& p : lines[l].points) points.emplace_back(p.x, p.y);
        chart.line(points, stroke);
        for (const ScorePoint& p : lines[l].points) {
            if (!std::isfinite(p.y)) continue;
            if (p.error > 0.0) chart.interval(p.x, p.y - p.error, p.y + p.error, stroke.color);
            chart.dot(p.x, p.y, stroke.color, 3.4,
                      fmt::format("{}: {:.4f}{} at {}", lines[l].name, p.y,
                                  p.error > 0.0 ? fmt::format(" ± {:.4f}", p.error) : "", short_number(p.x)));
        }
    }
    return chart.finish();
}

} // namespace hekla::app
