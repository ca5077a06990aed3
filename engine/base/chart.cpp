#include "base/chart.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla {
namespace {

constexpr double kRight = 24, kBottom = 52, kTitle = 34, kRow = 18, kTop = 14; // pixels
constexpr double kLabel = 34;                                                  // pixels that a label of x needs

constexpr std::string_view kSeries = "class=\"series\"";
constexpr std::string_view kInk = "fill=\"#222\"", kSoft = "fill=\"#555\"";

// Programs that do not know the rule, such as converters to PNG, draw the light picture.
constexpr std::string_view kDark =
    "<style>@media (prefers-color-scheme: dark) { .chart > rect:first-child, .chart [fill=\"#fff\"] { fill: #1b2127 } "
    ".chart [fill=\"#222\"] { fill: #e6e9ec } .chart [fill=\"#555\"] { fill: #98a3ad } .chart [stroke=\"#e4e4e4\"] "
    "{ stroke: #303943 } .chart .series { filter: brightness(1.6) } }</style>\n";

std::string attributes_of(const Stroke& stroke) {
    return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}{}", stroke.color,
                       svg_number(stroke.width),
                       stroke.dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", stroke.dash),
                       stroke.opacity < 1.0 ? fmt::format(" stroke-opacity=\"{}\"", svg_number(stroke.opacity)) : "");
}

double legend_width(const std::string& name) { return 40 + 7.0 * static_cast<double>(name.size()); }

// Returns where each entry of a legend begins: x and row.
std::vector<std::pair<double, int>> legend_places(const ChartLayout& layout) {
    std::vector<std::pair<double, int>> places;
    double x = layout.left;
    int row = 0;
    for (const auto& [name, stroke] : layout.legend) {
        if (x > layout.left && x + legend_width(name) > layout.width - kRight) x = layout.left, ++row;
        places.emplace_back(x, row);
        x += legend_width(name);
    }
    return places;
}

double height_above(const ChartLayout& layout) {
    const auto places = legend_places(layout);
    return (layout.title.empty() ? kTop : kTitle) + (places.empty() ? 0.0 : kRow * (places.back().second + 1.5)) +
           (layout.panels > 1 ? kRow : 0.0); // the name of the first panel
}

// Returns 1, 2 and 5 times powers of ten, or only powers of ten where these are many. low, high: logarithms.
std::vector<double> marks_of_decades(double low, double high) {
    std::vector<double> all;
    const bool few = high - low < 5.0;
    for (int power = static_cast<int>(std::floor(low / std::log(10.0))); power <= high / std::log(10.0); ++power)
        for (const double digit : {1.0, 2.0, 5.0}) {
            const double value = digit * std::pow(10.0, power);
            if ((digit == 1.0 || few) && std::log(value) >= low && std::log(value) <= high) all.push_back(value);
        }
    while (all.size() > 12) // every second
        for (std::size_t i = 1; i < all.size(); ++i) all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    return all;
}

} // namespace

double Scale::scaled(double value) const {
    if (!logarithmic) return value;
    return value > 0.0 ? std::log(value) : std::numeric_limits<double>::quiet_NaN();
}

void Scale::include(double value) {
    const double at = scaled(value);
    if (!std::isfinite(at)) return;
    low_ = std::min(low_, at);
    high_ = std::max(high_, at);
}

void Scale::widen(double share) {
    if (is_empty()) return;
    double margin = (high_ - low_) * share;
    if (high_ == low_) margin = logarithmic || low_ == 0.0 ? 0.5 : std::abs(low_) * 0.05;
    low_ -= margin;
    high_ += margin;
}

double Scale::low() const { return is_empty() ? 0.0 : logarithmic ? std::exp(low_) : low_; }
double Scale::high() const { return is_empty() ? 1.0 : logarithmic ? std::exp(high_) : high_; }

bool Scale::contains(double value) const {
    const double at = scaled(value); // not a number: false
    return at >= low_ && at <= high_;
}

double Scale::share(double value) const {
    const double first = is_empty() ? 0.0 : low_, last = is_empty() ? 1.0 : high_;
    const double share = last > first ? (scaled(value) - first) / (last - first) : 0.0;
    return falling ? 1.0 - share : share;
}

double Scale::value(double share) const {
    if (is_empty()) return share;
    const double at = low_ + (high_ - low_) * (falling ? 1.0 - share : share);
    return logarithmic ? std::exp(at) : at;
}

std::vector<double> Scale::marks(int count) const {
    constexpr double kWide = 3.4; // a ratio of 30
    if (low() == high()) return {low()};
    if (logarithmic && high_ - low_ > kWide) return marks_of_decades(low_, high_);
    std::vector<double> all;
    const double step = tidy_step(high() - low(), count);
    for (double i = std::ceil(low() / step - 1e-9); i * step <= high() + step * 1e-9; ++i)
        all.push_back(i * step + 0.0); // not -0
    return all;
}

Stroke series_stroke(std::size_t i) {
    constexpr const char* kColors[] = {"#1f5fa8", "#c8501e", "#3d8f5f", "#8a4fa3", "#b58900", "#4a4a4a",
                                       "#0f8b8d", "#a8326e", "#5ca9d6", "#7a4b2a", "#8fae3c", "#e08bb5"};
    const std::size_t turn = i / std::size(kColors);
    return {kColors[i % std::size(kColors)], 1.6, turn == 0 ? std::string() : fmt::format("{} 3", 6 / turn + 1)};
}

Chart::Chart(const ChartLayout& layout)
    : left_(layout.left), right_(layout.width - kRight), top_(height_above(layout)), bottom_(top_ + layout.height),
      gap_(44), svg_(layout.width, top_ + static_cast<double>(layout.panels) * (layout.height + gap_) - gap_ + kBottom,
                     "sans-serif", layout.font_size, "class=\"chart\"") {
    svg_.raw(kDark);
    if (!layout.title.empty()) svg_.text(left_, 24, layout.title, fmt::format("font-size=\"15\" {}", kInk));
    const auto places = legend_places(layout);
    const double first = layout.title.empty() ? kTop + 2 : kTitle + 10;
    svg_.open_group(kSeries);
    for (std::size_t i = 0; i < places.size(); ++i) {
        const auto& [name, stroke] = layout.legend[i];
        const double at = places[i].first, row = first + kRow * places[i].second;
        svg_.line(at, row, at + 18, row, attributes_of({stroke.color, 3.0, stroke.dash, stroke.opacity}));
        svg_.text(at + 23, row + 4, name, kInk);
    }
    svg_.close_group();
}

void Chart::next_panel() {
    end_series();
    const double height = bottom_ - top_;
    top_ = bottom_ + gap_;
    bottom_ = top_ + height;
    y = Scale();
}

void Chart::draw_axes(const ChartAxis& x_axis, const ChartAxis& y_axis) {
    const auto marks_of = [](const ChartAxis& axis, const Scale& scale, double pixels) {
        std::vector<double> marks =
            axis.marks.empty() ? scale.marks(std::max(4, static_cast<int>(pixels))) : axis.marks;
        if (axis.whole) std::erase_if(marks, [](double mark) { return mark != std::round(mark); });
        return marks;
    };
    const auto text_of = [](const ChartAxis& axis, double mark) {
        return axis.text ? axis.text(mark) : fmt::format("{:.6g}", std::abs(mark) < 1e-12 ? 0.0 : mark);
    };
    for (const double mark : marks_of(y_axis, y, (bottom_ - top_) / 38)) {
        svg_.line(left_, to_y(mark), right_, to_y(mark), "stroke=\"#e4e4e4\"");
        svg_.text(left_ - 8, to_y(mark) + 4, text_of(y_axis, mark), fmt::format("text-anchor=\"end\" {}", kSoft));
    }
    double written = -kLabel;
    for (const double mark : marks_of(x_axis, x, (right_ - left_) / 80)) {
        svg_.line(to_x(mark), top_, to_x(mark), bottom_, "stroke=\"#e4e4e4\" stroke-opacity=\"0.55\"");
        if (to_x(mark) - written < kLabel) continue;
        written = to_x(mark);
        svg_.text(written, bottom_ + 18, text_of(x_axis, mark), fmt::format("text-anchor=\"middle\" {}", kSoft));
    }
    if (!x_axis.name.empty())
        svg_.text((left_ + right_) / 2, bottom_ + 40, x_axis.name, fmt::format("text-anchor=\"middle\" {}", kSoft));
    if (!y_axis.name.empty())
        svg_.text_upwards(16, (top_ + bottom_) / 2, y_axis.name, fmt::format("text-anchor=\"middle\" {}", kSoft));
    svg_.open_group(kSeries);
    svg_.rect(left_, top_, right_ - left_, bottom_ - top_, "fill=\"none\""); // a filter of a line alone has no area
    in_series_ = true;
}

void Chart::end_series() {
    if (in_series_) svg_.close_group();
    in_series_ = false;
}

std::string Chart::finish() {
    end_series();
    return std::move(svg_).finish();
}

void Chart::note(std::string_view text) { svg_.text(left_, top_ + 24, text, kSoft); }

void Chart::panel_name(std::string_view name, const std::string& color) {
    svg_.text(left_, top_ - 8, name, fmt::format("fill=\"{}\"", color));
}

void Chart::line(const std::vector<std::pair<double, double>>& points, const Stroke& stroke) {
    // More points than pixels only make the file larger.
    const std::size_t every = std::max<std::size_t>(1, points.size() / 2000);
    std::string path;
    for (std::size_t i = 0; i < points.size(); ++i)
        if ((i % every == 0 || i + 1 == points.size()) && std::isfinite(points[i].second))
            path +=
                fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", to_x(points[i].first), to_y(points[i].second));
    if (!path.empty()) svg_.path(path, attributes_of(stroke));
}

void Chart::curve(double from, double to, const std::function<double(double)>& of, const Stroke& stroke) {
    constexpr int kPoints = 96;
    const double first = x.share(from), last = x.share(to);
    std::string path;
    bool pen_is_up = true;
    for (int i = 0; i <= kPoints; ++i) {
        const double at = x.value(first + (last - first) * i / kPoints), value = of(at);
        if (y.contains(value)) path += fmt::format("{}{:.1f} {:.1f}", pen_is_up ? "M" : "L", to_x(at), to_y(value));
        pen_is_up = !y.contains(value);
    }
    if (!path.empty()) svg_.path(path, attributes_of(stroke));
}

void Chart::band(double from, double to, const std::function<std::pair<double, double>(double)>& of) {
    constexpr int kPoints = 40;
    const double first = x.share(from), last = x.share(to);
    std::string path, back;
    for (int i = 0; i <= kPoints; ++i) {
        const double at = x.value(first + (last - first) * i / kPoints);
        const auto [low, high] = of(at);
        const auto inside = [&](double value) { return to_y(std::clamp(value, y.low(), y.high())); };
        path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", to_x(at), inside(high));
        back.insert(0, fmt::format("L{:.1f} {:.1f}", to_x(at), inside(low)));
    }
    svg_.path(path + back + "Z", "fill=\"#888\" fill-opacity=\"0.25\"");
}

void Chart::segment(double x1, double y1, double x2, double y2, const Stroke& stroke) {
    svg_.line(to_x(x1), to_y(y1), to_x(x2), to_y(y2), attributes_of(stroke));
}

void Chart::dot(double at, double value, const std::string& color, double radius, std::string_view tip, bool hollow) {
    if (!tip.empty()) svg_.open_group("", tip);
    svg_.circle(to_x(at), to_y(value), radius,
                hollow ? fmt::format("fill=\"#fff\" stroke=\"{}\" stroke-width=\"2\"", color)
                       : fmt::format("fill=\"{}\"", color));
    if (!tip.empty()) svg_.close_group();
}

void Chart::interval(double at, double low, double high, const std::string& color) {
    const Stroke stroke{color, 1.2};
    segment(at, low, at, high, stroke);
    for (const double end : {low, high})
        svg_.line(to_x(at) - 4, to_y(end), to_x(at) + 4, to_y(end), attributes_of(stroke));
}

void Chart::bar(double from, double to, double value, const std::string& color, double opacity, std::string_view tip) {
    svg_.rect(to_x(from) + 1, to_y(value), to_x(to) - to_x(from) - 2, to_y(0.0) - to_y(value),
              fmt::format("fill=\"{}\" fill-opacity=\"{:.2f}\"", color, opacity), tip);
}

void Chart::label(double at, double value, std::string_view text) {
    svg_.text(to_x(at) + 7, to_y(value) + 13, text, fmt::format("font-size=\"11\" {}", kSoft));
}

} // namespace hekla
