#include "base/curves.hpp"

#include "base/chart.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla {
namespace {

std::vector<std::pair<double, double>> points_of(const Curve& curve) {
    return {curve.points.begin(), curve.points.end()};
}

void include(Chart& chart, const Curve& curve) {
    for (const auto& [step, value] : curve.points) {
        chart.x.include(static_cast<double>(step));
        chart.y.include(value);
    }
}

} // namespace

std::string curve_svg(const std::string& title, const std::vector<Curve>& curves, const std::string& axis) {
    ChartLayout layout{.title = title};
    for (const Curve& curve : curves)
        if (!curve.points.empty())
            layout.legend.emplace_back(fmt::format("{} ({:.4f})", curve.name, curve.points.back().second),
                                       Stroke{.color = curve.color, .opacity = curve.opacity});
    Chart chart(layout);
    for (const Curve& curve : curves) include(chart, curve);
    if (chart.y.is_empty()) {
        chart.note("nothing was logged yet");
        return chart.finish();
    }
    chart.x.widen(0.0);
    chart.y.widen(0.05);
    chart.draw_axes({.name = axis, .whole = true}, {});
    for (const Curve& curve : curves) {
        chart.line(points_of(curve), {.color = curve.color, .opacity = curve.opacity});
        if (curve.points.size() < 60)
            for (const auto& [step, value] : points_of(curve)) chart.dot(step, value, curve.color, 2.6);
    }
    return chart.finish();
}

std::string panels_svg(const std::string& title, const std::vector<Curve>& curves) {
    Chart chart({.title = title, .height = 130, .panels = std::max<std::size_t>(1, curves.size())});
    for (const Curve& curve : curves) include(chart, curve);
    if (chart.y.is_empty()) chart.note("nothing was logged yet");
    chart.x.widen(0.0);
    for (const Curve& curve : curves) {
        if (&curve != &curves.front()) chart.next_panel();
        chart.y = Scale();
        include(chart, curve);
        chart.y.widen(0.05);
        chart.draw_axes({.name = &curve == &curves.back() ? "step" : "", .whole = true}, {});
        const double last = curve.points.empty() ? 0.0 : curve.points.back().second;
        chart.panel_name(fmt::format("{} ({:.4g})", curve.name, last), curve.color);
        chart.line(points_of(curve), {.color = curve.color});
    }
    return chart.finish();
}

} // namespace hekla
