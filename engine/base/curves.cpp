#include "base/curves.hpp"

#include "base/svg.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla {
namespace {

// Draws the line of a curve, where x and y give the place of a step and of a value.
template<class X, class Y>
void draw_curve(SvgWriter& svg, const Curve& curve, const X& x, const Y& y) {
    // More points than pixels only make the file larger.
    const std::size_t every = std::max<std::size_t>(1, curve.points.size() / 2000);
    std::string path;
    for (std::size_t i = 0; i < curve.points.size(); ++i)
        if (i % every == 0 || i + 1 == curve.points.size())
            path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L",
                                x(static_cast<double>(curve.points[i].first)), y(curve.points[i].second));
    svg.path(path,
             fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\"", curve.color));
}

} // namespace

std::string curve_svg(const std::string& title, const std::vector<Curve>& curves, const std::string& axis) {
    constexpr double kWidth = 860, kHeight = 460, kLeft = 64, kRight = 24, kTop = 48, kBottom = 48;
    double first = 1e300, last = -1e300, low = 1e300, high = -1e300;
    for (const Curve& curve : curves)
        for (const auto& [step, value] : curve.points) {
            first = std::min(first, static_cast<double>(step));
            last = std::max(last, static_cast<double>(step));
            low = std::min(low, value);
            high = std::max(high, value);
        }
    SvgWriter svg(kWidth, kHeight, "sans-serif", 12);
    svg.text(kLeft, 24, title, "font-size=\"15\" fill=\"#222\"");
    if (first > last) {
        svg.text(64, 80, "nothing was logged yet", "fill=\"#666\"");
        return std::move(svg).finish();
    }
    if (last == first) last = first + 1;
    const double margin = std::max((high - low) * 0.05, 1e-9);
    low -= margin;
    high += margin;
    const auto x = [&](double step) { return kLeft + (step - first) / (last - first) * (kWidth - kLeft - kRight); };
    const auto y = [&](double value) { return kTop + (high - value) / (high - low) * (kHeight - kTop - kBottom); };
    const double step_y = tidy_step(high - low, 6), step_x = std::max(1.0, tidy_step(last - first, 8));
    for (double value = std::ceil(low / step_y) * step_y; value <= high; value += step_y) {
        svg.line(kLeft, y(value), kWidth - kRight, y(value), "stroke=\"#e4e4e4\"");
        svg.text(kLeft - 8, y(value) + 4, fmt::format("{:.6g}", std::abs(value) < step_y * 1e-6 ? 0.0 : value),
                 "text-anchor=\"end\" fill=\"#555\"");
    }
    for (double step = std::ceil(first / step_x) * step_x; step <= last; step += step_x) {
        svg.line(x(step), kTop, x(step), kHeight - kBottom, "stroke=\"#f0f0f0\"");
        svg.text(x(step), kHeight - kBottom + 18, fmt::format("{:.0f}", step), "text-anchor=\"middle\" fill=\"#555\"");
    }
    svg.text((kLeft + kWidth - kRight) / 2, kHeight - 10, axis, "text-anchor=\"middle\" fill=\"#555\"");
    double legend = kTop + 8;
    for (const Curve& curve : curves) {
        if (curve.points.empty()) continue;
        draw_curve(svg, curve, x, y);
        if (curve.points.size() < 60)
            for (const auto& [step, value] : curve.points)
                svg.circle(x(static_cast<double>(step)), y(value), 2.6, fmt::format("fill=\"{}\"", curve.color));
        svg.line(kWidth - 270, legend, kWidth - 246, legend,
                 fmt::format("stroke=\"{}\" stroke-width=\"3\"", curve.color));
        svg.text(kWidth - 240, legend + 4, fmt::format("{} ({:.4f})", curve.name, curve.points.back().second),
                 "fill=\"#333\"");
        legend += 18;
    }
    return std::move(svg).finish();
}

std::string panels_svg(const std::string& title, const std::vector<Curve>& curves) {
    constexpr double kWidth = 860, kPanel = 150, kLeft = 74, kRight = 24, kTop = 44, kGap = 44;
    double first = 1e300, last = -1e300;
    for (const Curve& curve : curves)
        for (const auto& [step, value] : curve.points) {
            first = std::min(first, static_cast<double>(step));
            last = std::max(last, static_cast<double>(step));
        }
    SvgWriter svg(kWidth, kTop + (kPanel + kGap) * static_cast<double>(curves.size()), "sans-serif", 12);
    svg.text(kLeft, 24, title, "font-size=\"15\" fill=\"#222\"");
    if (first > last) {
        svg.text(kLeft, 80, "nothing was logged yet", "fill=\"#666\"");
        return std::move(svg).finish();
    }
    if (last == first) last = first + 1;
    double top = kTop;
    for (const Curve& curve : curves) {
        double low = 1e300, high = -1e300;
        for (const auto& [step, value] : curve.points) {
            low = std::min(low, value);
            high = std::max(high, value);
        }
        if (low > high) low = high = 0.0;
        const double margin = std::max((high - low) * 0.05, 1e-9);
        low -= margin;
        high += margin;
        const auto x = [&](double step) { return kLeft + (step - first) / (last - first) * (kWidth - kLeft - kRight); };
        const auto y = [&](double value) { return top + 20 + (high - value) / (high - low) * (kPanel - 20); };
        const double last_value = curve.points.empty() ? 0.0 : curve.points.back().second;
        svg.text(kLeft, top + 12, fmt::format("{} ({:.4g})", curve.name, last_value),
                 fmt::format("fill=\"{}\"", curve.color));
        const double step_y = tidy_step(high - low, 4), step_x = std::max(1.0, tidy_step(last - first, 8));
        for (double value = std::ceil(low / step_y) * step_y; value <= high; value += step_y) {
            svg.line(kLeft, y(value), kWidth - kRight, y(value), "stroke=\"#e4e4e4\"");
            svg.text(kLeft - 8, y(value) + 4, fmt::format("{:.4g}", std::abs(value) < step_y * 1e-6 ? 0.0 : value),
                     "text-anchor=\"end\" fill=\"#555\"");
        }
        for (double step = std::ceil(first / step_x) * step_x; step <= last; step += step_x)
            svg.text(x(step), top + kPanel + 16, fmt::format("{:.0f}", step), "text-anchor=\"middle\" fill=\"#555\"");
        draw_curve(svg, curve, x, y);
        top += kPanel + kGap;
    }
    svg.text((kLeft + kWidth - kRight) / 2, top - 8, "step", "text-anchor=\"middle\" fill=\"#555\"");
    return std::move(svg).finish();
}

} // namespace hekla
