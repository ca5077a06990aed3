// Charts as SVG: scales, axes with a grid, a legend, and series of lines, points and bars. Readable on light and dark
// screens.
#pragma once

#include "base/svg.hpp"

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hekla {

// A range of values, and where each of them is in it.
class Scale {
public:
    bool logarithmic = false; // values that are not above 0 are ignored
    bool falling = false;     // the largest value comes first

    void include(double value); // not if it is not finite
    // Adds a share of the range before and after it; a range of a single value becomes one around it.
    void widen(double share);
    bool is_empty() const { return low_ > high_; }
    double low() const; // 0 and 1 if the scale is empty
    double high() const;
    bool contains(double value) const;
    double share(double value) const; // 0 to 1, for a value that is contained
    double value(double share) const;
    // Returns about `count` values at tidy distances: multiples of a step; over a large logarithmic range 1, 2 and 5
    // times powers of ten.
    std::vector<double> marks(int count) const;

private:
    double scaled(double value) const;
    double low_ = std::numeric_limits<double>::infinity(), high_ = -low_; // scaled
};

// How a series is drawn.
struct Stroke {
    std::string color;
    double width = 1.6;    // pixels
    std::string dash = {}; // "5 4"; empty: solid
    double opacity = 1.0;
};
// Returns the stroke of the i-th series of a chart: colors that are easy to tell apart, and dashes when they repeat.
Stroke series_stroke(std::size_t i);

struct ChartAxis {
    std::string name = {};
    std::vector<double> marks = {};                    // empty: tidy ones
    std::function<std::string(double)> text = nullptr; // of a mark; null: the number
    bool whole = false;                                // marks only at whole numbers
};

// What is known before a chart is drawn. Sizes are pixels.
struct ChartLayout {
    std::string title = {};
    std::vector<std::pair<std::string, Stroke>> legend = {}; // in rows above the chart
    double width = 860, height = 364, left = 68;             // height: of each panel without what is around it
    std::size_t panels = 1;                                  // one below the other
    double font_size = 12;
};

// A picture of one or several charts. Scales are set, then draw_axes(), then the series are drawn.
class Chart {
public:
    explicit Chart(const ChartLayout& layout);

    Scale x, y;

    // Continues with the panel below. The y scale is empty again.
    void next_panel();
    void draw_axes(const ChartAxis& x_axis, const ChartAxis& y_axis);
    // Writes instead of a chart that has no data.
    void note(std::string_view text);
    // Writes the name of a panel above it.
    void panel_name(std::string_view name, const std::string& color);

    // Draws a line through points in the order of x; points that are not finite are left out.
    void line(const std::vector<std::pair<double, double>>& points, const Stroke& stroke);
    // Draws y = of(x) over a range of x, where it is inside the chart.
    void curve(double from, double to, const std::function<double(double)>& of, const Stroke& stroke);
    // Fills between two functions of x.
    void band(double from, double to, const std::function<std::pair<double, double>(double)>& of);
    void segment(double x1, double y1, double x2, double y2, const Stroke& stroke);
    void horizontal(double at, const Stroke& stroke) { segment(x.low(), at, x.high(), at, stroke); }
    // tip: the tooltip.
    void dot(double at, double value, const std::string& color, double radius = 3.4, std::string_view tip = {},
             bool hollow = false);
    // Draws an interval of y, with a line across each end.
    void interval(double at, double low, double high, const std::string& color);
    // Draws a bar from y = 0 over a range of x.
    void bar(double from, double to, double value, const std::string& color, double opacity, std::string_view tip);
    // Writes a text next to a point.
    void label(double at, double value, std::string_view text);

    std::string finish();

private:
    double to_x(double value) const { return left_ + x.share(value) * (right_ - left_); }
    double to_y(double value) const { return bottom_ - y.share(value) * (bottom_ - top_); }

    void end_series();

    double left_, right_, top_, bottom_, gap_;
    SvgWriter svg_;
    bool in_series_ = false; // in the group of a panel's series
};

} // namespace hekla
