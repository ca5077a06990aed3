#include "panels/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace observatory {
namespace {

// Returns 1, 2 or 5 times a power of ten, so that about `count` steps fill `span`.
double tidy(double span, int count) {
    const double rough = std::max(span / count, 1e-300), power = std::pow(10.0, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * power >= rough * 0.999) return factor * power;
    return 10.0 * power;
}

std::string number(double value, bool compact = false) {
    std::array<char, 32> text{};
    if (compact && value != 0.0)
        std::snprintf(text.data(), text.size(), "%.1e", value);
    else
        std::snprintf(text.data(), text.size(), "%.4g", std::abs(value) < 1e-12 ? 0.0 : value);
    return text.data();
}

struct Range {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    void take(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
    bool is_empty() const { return low > high; }
};

struct Axes {
    ImVec2 low, high; // pixels of the drawing's corners
    Range x, y;       // y: logarithms, on a logarithmic axis
    bool logarithmic;
    float px(double step) const {
        return low.x + static_cast<float>((step - x.low) / (x.high - x.low)) * (high.x - low.x);
    }
    double lifted(double value) const { return logarithmic ? std::log10(value) : value; }
    float py(double value) const {
        return high.y - static_cast<float>((lifted(value) - y.low) / (y.high - y.low)) * (high.y - low.y);
    }
};

// Draws the minimum and maximum of each column of pixels, so that there are not more points than pixels.
void draw_curve(ImDrawList& list, const Axes& axes, const PlotCurve& drawn) {
    const Curve& curve = *drawn.curve;
    std::vector<ImVec2> points;
    float column = -1e9F;
    std::size_t least = 0, greatest = 0;
    const auto flush = [&] {
        for (const std::size_t i : {std::min(least, greatest), std::max(least, greatest)})
            points.emplace_back(axes.px(curve.steps[i]), axes.py(curve.values[i]));
    };
    for (std::size_t i = 0; i < curve.values.size(); ++i) {
        if (!std::isfinite(curve.values[i]) || (axes.logarithmic && curve.values[i] <= 0.0)) continue;
        const float x = std::floor(axes.px(curve.steps[i]));
        if (x != column) {
            if (column > -1e9F) flush();
            column = x;
            least = greatest = i;
        }
        if (curve.values[i] < curve.values[least]) least = i;
        if (curve.values[i] > curve.values[greatest]) greatest = i;
    }
    if (column > -1e9F) flush();
    if (points.size() > 1)
        list.AddPolyline(points.data(), static_cast<int>(points.size()), drawn.color, ImDrawFlags_None, drawn.width);
    if (drawn.dots || points.size() == 2)
        for (const ImVec2& point : points) list.AddCircleFilled(point, 3.2F, drawn.color);
}

void draw_grid(ImDrawList& list, const Axes& axes, const PlotOptions& options, const Fonts& fonts) {
    const float size = fonts.small->FontSize;
    const auto line = [&](double value) {
        const float y = std::round(axes.py(value));
        list.AddLine({axes.low.x, y}, {axes.high.x, y}, color::kGrid);
        const std::string text = number(value, options.compact);
        const float width = fonts.small->CalcTextSizeA(size, FLT_MAX, 0.0F, text.c_str()).x;
        list.AddText(fonts.small, size, {axes.low.x - width - 7.0F, y - size / 2.0F}, color::kDim, text.c_str());
    };
    if (axes.logarithmic) {
        const bool many = axes.y.high - axes.y.low < 1.5;
        for (double decade = std::floor(axes.y.low); decade <= axes.y.high; decade += 1.0)
            for (const double factor : {1.0, 2.0, 5.0}) {
                const double value = factor * std::pow(10.0, decade), at = std::log10(value);
                if ((factor == 1.0 || many) && at >= axes.y.low && at <= axes.y.high) line(value);
            }
    } else {
        const double step = tidy(axes.y.high - axes.y.low, 5);
        for (double value = std::ceil(axes.y.low / step) * step; value <= axes.y.high; value += step) line(value);
    }
    const double step = std::max(1.0, tidy(axes.x.high - axes.x.low, 7));
    for (double value = std::ceil(axes.x.low / step) * step; value <= axes.x.high; value += step) {
        const float x = std::round(axes.px(value));
        list.AddLine({x, axes.low.y}, {x, axes.high.y}, color::kGrid);
        const std::string text = number(value);
        const float width = fonts.small->CalcTextSizeA(size, FLT_MAX, 0.0F, text.c_str()).x;
        list.AddText(fonts.small, size, {x - width / 2.0F, axes.high.y + 4.0F}, color::kDim, text.c_str());
    }
}

// Draws a vertical line at the mouse, and each curve's value there.
void draw_reading(ImDrawList& list, const Axes& axes, std::span<const PlotCurve> curves) {
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const double step = axes.x.low + static_cast<double>(mouse.x - axes.low.x) /
                                         static_cast<double>(axes.high.x - axes.low.x) * (axes.x.high - axes.x.low);
    list.AddLine({mouse.x, axes.low.y}, {mouse.x, axes.high.y}, color::kFrame);
    ImGui::BeginTooltip();
    bool first = true;
    for (const PlotCurve& drawn : curves) {
        const Curve& curve = *drawn.curve;
        if (curve.steps.empty()) continue;
        const auto after = std::lower_bound(curve.steps.begin(), curve.steps.end(), step);
        std::size_t i = static_cast<std::size_t>(after - curve.steps.begin());
        if (i == curve.steps.size() || (i > 0 && step - curve.steps[i - 1] < curve.steps[i] - step)) --i;
        if (first) ImGui::TextDisabled("step %.0f", curve.steps[i]);
        first = false;
        ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(drawn.color), "%s", drawn.name.c_str());
        ImGui::SameLine();
        ImGui::Text("%.5g", curve.values[i]);
        if (!axes.logarithmic || curve.values[i] > 0.0)
            list.AddCircleFilled({axes.px(curve.steps[i]), axes.py(curve.values[i])}, 3.5F, drawn.color);
    }
    ImGui::EndTooltip();
}

} // namespace

void plot(const PlotOptions& options, std::span<const PlotCurve> curves, ImVec2 size, const Fonts& fonts) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    ImGui::InvisibleButton(options.title.c_str(), {std::max(size.x, 60.0F), std::max(size.y, 60.0F)});
    const bool hovered = ImGui::IsItemHovered();
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const float small = fonts.small->FontSize, text = fonts.text->FontSize;
    Axes axes{{corner.x + 62.0F, corner.y + text + 14.0F},
              {corner.x + size.x - 12.0F, corner.y + size.y - small - 10.0F},
              {},
              {},
              options.logarithmic};
    list.AddRectFilled(corner, {corner.x + size.x, corner.y + size.y}, IM_COL32(25, 28, 36, 255), 6.0F);
    list.AddText({corner.x + 12.0F, corner.y + 7.0F}, color::kText, options.title.c_str());
    const float title = ImGui::CalcTextSize(options.title.c_str()).x;
    list.AddText(fonts.small, small, {corner.x + title + 22.0F, corner.y + 9.0F}, color::kDim, options.unit.c_str());
    for (const PlotCurve& drawn : curves) {
        for (const double step : drawn.curve->steps) axes.x.take(step);
        for (const double value : drawn.curve->values)
            if (std::isfinite(value) && (!options.logarithmic || value > 0.0)) axes.y.take(axes.lifted(value));
    }
    if (axes.x.is_empty() || axes.y.is_empty()) {
        const ImVec2 wide = ImGui::CalcTextSize(options.empty);
        list.AddText({corner.x + (size.x - wide.x) / 2.0F, corner.y + (size.y - wide.y) / 2.0F}, color::kDim,
                     options.empty);
        return;
    }
    if (axes.x.high <= axes.x.low) axes.x.high = axes.x.low + 1.0;
    const double least = options.logarithmic ? 0.05 : std::max(std::abs(axes.y.high) * 1e-3, 1e-12);
    const double margin = std::max((axes.y.high - axes.y.low) * 0.06, least);
    axes.y.low -= margin;
    axes.y.high += margin;
    draw_grid(list, axes, options, fonts);
    list.PushClipRect(axes.low, axes.high, true);
    for (const PlotCurve& drawn : curves) draw_curve(list, axes, drawn);
    list.PopClipRect();
    float right = corner.x + size.x - 12.0F;
    for (std::size_t i = curves.size(); i-- > 0;) {
        if (curves[i].curve->values.empty() || curves.size() == 1) continue;
        right -= fonts.small->CalcTextSizeA(small, FLT_MAX, 0.0F, curves[i].name.c_str()).x;
        list.AddText(fonts.small, small, {right, corner.y + 9.0F}, color::kDim, curves[i].name.c_str());
        list.AddLine({right - 22.0F, corner.y + 9.0F + small / 2.0F}, {right - 6.0F, corner.y + 9.0F + small / 2.0F},
                     curves[i].color, 2.5F);
        right -= 38.0F;
    }
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    if (hovered && mouse.x >= axes.low.x && mouse.x <= axes.high.x) draw_reading(list, axes, curves);
}

Curve smoothed(const Curve& curve, double span) {
    Curve result;
    double mean = 0, weight = 0;
    const double keep = std::exp(-1.0 / std::max(span, 1e-6));
    for (std::size_t i = 0; i < curve.values.size(); ++i) {
        mean = keep * mean + (1.0 - keep) * curve.values[i];
        weight = keep * weight + (1.0 - keep);
        result.add(curve.steps[i], mean / weight);
    }
    return result;
}

} // namespace observatory
