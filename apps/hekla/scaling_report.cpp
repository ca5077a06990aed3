#include "scaling_report.hpp"

#include "base/markup.hpp"
#include "base/number_text.hpp"
#include "base/svg.hpp"
#include "pages/page.hpp"
#include "scaling/fit_json.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <set>

namespace hekla::app {
namespace {

using namespace scaling;
using nlohmann::ordered_json;

constexpr const char* kColors[] = {"#1f5fa8", "#c8501e", "#3d8f5f", "#8a4fa3", "#b58900", "#4a4a4a",
                                   "#0f8b8d", "#a8326e", "#5ca9d6", "#7a4b2a", "#8fae3c", "#e08bb5"};

std::string short_number(double value) {
    constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E", " Z"};
    std::size_t unit = 0;
    while (std::abs(value) >= 999.5 && unit + 1 < std::size(kUnits)) {
        value /= 1000.0;
        ++unit;
    }
    return fmt::format("{:.3g}{}", value, kUnits[unit]);
}

std::string range_text(const Range& range) { return fmt::format("{:.4g} to {:.4g}", range.low, range.high); }
std::string signed_percent(double error) { return fmt::format("{:+.2f}%", 100.0 * error); }

// A picture with logarithmic axes.
class Chart {
public:
    // legend: with room for a title and a legend.
    Chart(const std::string& title, double height, bool legend = true)
        : height_(height), top_(legend ? 78.0 : 16.0), svg_(kWidth, height, "sans-serif", 12) {
        if (!title.empty()) svg_.text(kLeft, 24, title, "font-size=\"15\" fill=\"#222\"");
    }
    void include(double x, double y) {
        if (!(x > 0.0) || !std::isfinite(y)) return;
        x_low_ = std::min(x_low_, std::log(x)), x_high_ = std::max(x_high_, std::log(x));
        y_low_ = std::min(y_low_, scaled(y)), y_high_ = std::max(y_high_, scaled(y));
    }
    void linear_y() { logarithmic_y_ = false; }
    // After all include(): a margin, and the grid.
    void draw_axes(const std::string& x_name, const std::string& y_name) {
        const auto widen = [](double& low, double& high) {
            const double margin = std::max((high - low) * 0.06, 1e-3);
            low -= margin, high += margin;
        };
        widen(x_low_, x_high_), widen(y_low_, y_high_);
        for (const double value : marks(x_low_, x_high_)) {
            svg_.line(x(value), top_, x(value), height_ - kBottom, "stroke=\"#f0f0f0\"");
            svg_.text(x(value), height_ - kBottom + 18, short_number(value), "text-anchor=\"middle\" fill=\"#555\"");
        }
        const double step =
            logarithmic_y_ ? tidy_step(std::exp(y_high_) - std::exp(y_low_), 7) : tidy_step(y_high_ - y_low_, 7);
        const double low = logarithmic_y_ ? std::exp(y_low_) : y_low_,
                     high = logarithmic_y_ ? std::exp(y_high_) : y_high_;
        const bool wide = logarithmic_y_ && high / low > 30.0;
        const auto mark = [&](double value) {
            svg_.line(kLeft, y(value), kWidth - kRight, y(value), "stroke=\"#e4e4e4\"");
            svg_.text(kLeft - 8, y(value) + 4,
                      wide ? short_number(value) : fmt::format("{:.4g}", std::abs(value) < 1e-9 ? 0.0 : value),
                      "text-anchor=\"end\" fill=\"#555\"");
        };
        if (wide)
            for (const double value : marks(y_low_, y_high_)) mark(value);
        else
            for (double value = std::ceil(low / step) * step; value <= high; value += step) mark(value);
        svg_.text((kLeft + kWidth - kRight) / 2, height_ - 10, x_name, "text-anchor=\"middle\" fill=\"#555\"");
        svg_.text_upwards(16, (top_ + height_ - kBottom) / 2, y_name, "text-anchor=\"middle\" fill=\"#555\"");
    }
    double x(double value) const {
        return kLeft + (std::log(value) - x_low_) / (x_high_ - x_low_) * (kWidth - kLeft - kRight);
    }
    double y(double value) const {
        return height_ - kBottom - (scaled(value) - y_low_) / (y_high_ - y_low_) * (height_ - top_ - kBottom);
    }
    double least_x() const { return std::exp(x_low_); }
    double most_x() const { return std::exp(x_high_); }
    // Draws y(x) over a range of x, where it is inside the picture.
    void curve(double from, double to, const std::function<double(double)>& of, const std::string& attributes) {
        std::string path;
        constexpr int kPoints = 96;
        for (int i = 0; i <= kPoints; ++i) {
            const double at = std::exp(std::log(from) + (std::log(to) - std::log(from)) * i / kPoints), value = of(at);
            const bool inside = std::isfinite(value) && scaled(value) >= y_low_ && scaled(value) <= y_high_;
            if (inside) path += fmt::format("{}{:.1f} {:.1f}", path.empty() || broken_ ? "M" : "L", x(at), y(value));
            broken_ = !inside;
        }
        broken_ = false;
        if (!path.empty()) svg_.path(path, "fill=\"none\" " + attributes);
    }
    void band(double from, double to, const std::function<Range(double)>& of, const std::string& attributes) {
        std::string path, back;
        constexpr int kPoints = 40;
        for (int i = 0; i <= kPoints; ++i) {
            const double at = std::exp(std::log(from) + (std::log(to) - std::log(from)) * i / kPoints);
            const Range range = of(at);
            const auto clamped = [&](double value) { return std::clamp(y(value), top_, height_ - kBottom); };
            path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x(at), clamped(range.high));
            back.insert(0, fmt::format("L{:.1f} {:.1f}", x(at), clamped(range.low)));
        }
        svg_.path(path + back + "Z", attributes);
    }
    void point(double px, double py, const std::string& color, bool hollow, const std::string& tip) {
        svg_.open_group("", tip);
        svg_.circle(x(px), y(py), hollow ? 4.6 : 3.6,
                    hollow ? fmt::format("fill=\"#fff\" stroke=\"{}\" stroke-width=\"2\"", color)
                           : fmt::format("fill=\"{}\"", color));
        svg_.close_group();
    }
    void bar(double px, const Range& range, const std::string& color) {
        const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"1.4\"", color);
        svg_.line(x(px), y(range.low), x(px), y(range.high), stroke);
        for (const double end : {range.low, range.high}) svg_.line(x(px) - 5, y(end), x(px) + 5, y(end), stroke);
    }
    void label(double px, double py, const std::string& text) {
        svg_.text(x(px) + 6, y(py) - 4, text, "fill=\"#777\" font-size=\"11\"");
    }
    void explain(const std::string& name, const std::string& color) {
        const double width = 40 + 7.0 * static_cast<double>(name.size());
        if (legend_ + width > kWidth - kRight) legend_ = kLeft, legend_row_ += 16;
        svg_.line(legend_, legend_row_, legend_ + 18, legend_row_,
                  fmt::format("stroke=\"{}\" stroke-width=\"3\"", color));
        svg_.text(legend_ + 23, legend_row_ + 4, name, "fill=\"#333\"");
        legend_ += width;
    }
    void horizontal(double value) {
        svg_.line(kLeft, y(value), kWidth - kRight, y(value), "stroke=\"#777\" stroke-dasharray=\"5 4\"");
    }
    std::string finish() { return std::move(svg_).finish(); }

private:
    static constexpr double kWidth = 860, kLeft = 68, kRight = 24, kBottom = 52;
    double scaled(double value) const { return logarithmic_y_ ? (value > 0.0 ? std::log(value) : -1e300) : value; }
    // 1, 2 and 5 times powers of ten, or only powers of ten where these are many.
    static std::vector<double> marks(double low, double high) {
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
    double height_, top_;
    SvgWriter svg_;
    bool logarithmic_y_ = true, broken_ = false;
    double x_low_ = 1e300, x_high_ = -1e300, y_low_ = 1e300, y_high_ = -1e300;
    double legend_ = kLeft, legend_row_ = 44;
};

// The sizes that a picture has colors for: all of a ladder's, or some of many.
class Palette {
public:
    Palette(const Fit& fit, const std::vector<Point>& points) {
        std::set<double> all;
        for (const Point& p : points) all.insert(fit.size_of(p));
        const std::vector<double> sorted(all.begin(), all.end());
        const std::size_t count = std::min(sorted.size(), std::size(kColors));
        for (std::size_t i = 0; i < count; ++i)
            sizes_.push_back(sorted[count > 1 ? i * (sorted.size() - 1) / (count - 1) : 0]);
    }
    const std::vector<double>& sizes() const { return sizes_; }
    // Returns the color of the nearest size.
    const char* color(double size) const {
        const auto nearest =
            std::ranges::min_element(sizes_, {}, [&](double one) { return std::abs(std::log(one) - std::log(size)); });
        return kColors[static_cast<std::size_t>(nearest - sizes_.begin())];
    }

private:
    std::vector<double> sizes_;
};

const char* size_name(const Fit& fit) {
    return fit.without_embeddings ? "parameters without embeddings" : "parameters";
}

} // namespace

void ScalingReport::add(Fit fit) {
    if (fits_.empty()) predicted_ = predictions(fit, points_);
    fits_.push_back(std::move(fit));
}

std::vector<double> ScalingReport::budgets() const {
    double most = 0.0;
    for (const Point& p : points_)
        if (!p.held_out) most = std::max(most, fits_.front().flops_of(p));
    return {most, 4.0 * most, 16.0 * most, 64.0 * most};
}

namespace {

std::string backtest_text(const Fit& fit) {
    return fit.backtest ? fmt::format("; larger models predicted to {:.2f}%", 100.0 * *fit.backtest) : "";
}

// Tells that a law cannot be right; empty if it can.
std::string below_floor_text(const Fit& fit, std::span<const scaling::Point> points) {
    const std::vector<const scaling::Point*> below = scaling::below_floor(fit, points);
    if (below.empty()) return {};
    const scaling::Point& lowest = **std::ranges::min_element(below, {}, &scaling::Point::loss);
    return fmt::format("E is above the loss of {} of {} models ({:.4g} of {}), so this law does not hold for them: "
                       "train more sizes and numbers of tokens, and take one data set and tokenizer for all",
                       below.size(), points.size(), lowest.loss, lowest.name);
}

} // namespace

std::string ScalingReport::table() const {
    const auto held = std::ranges::count(points_, true, &Point::held_out);
    std::string text =
        fmt::format("{} models fitted, {} held out\n", static_cast<std::ptrdiff_t>(points_.size()) - held, held);
    for (const Fit& fit : fits_) {
        text += fmt::format("\n{} over {} (Huber loss {:.4g}{})\n", form_name(fit.law.form), size_name(fit),
                            fit.objective, backtest_text(fit));
        for (std::size_t i = 0; i < fit.law.count(); ++i)
            text += fmt::format("  {:<8} {:>10.4g}{}\n", constant_names(fit.law.form)[i], fit.law.constant(i),
                                fit.resampled.empty() ? "" : fmt::format("   {}", range_text(fit.constant_range(i))));
        if (const std::string wrong = below_floor_text(fit, points_); !wrong.empty())
            text += fmt::format("  {}\n", wrong);
    }
    if (fits_.empty()) return text;
    const Fit& fit = fits_.front();
    if (!predicted_.empty()) {
        text += fmt::format("\n{:<20} {:>10} {:>8} {:>8} {:>16} {:>8} {:>10} {:>10}\n", "held out", "FLOPs", "loss",
                            "predicted", "95%", "error", "best loss", "line");
        for (const Prediction& one : predicted_)
            text +=
                fmt::format("{:<20} {:>10} {:>8.4f} {:>9.4f} {:>16} {:>8} {:>10} {:>10}\n", one.point->name,
                            short_number(fit.flops_of(*one.point)), one.point->loss, one.loss, range_text(one.range),
                            signed_percent(one.error), signed_percent(one.as_best), signed_percent(one.as_line));
    }
    text += fmt::format("\n{:>10} {:>12} {:>12} {:>8} {:>16}   best size and data for as many FLOPs\n", "FLOPs",
                        "parameters", "tokens", "loss", "95%");
    for (const double flops : budgets()) {
        const Optimum best = optimum(fit.law, fit.cost, flops);
        text += fmt::format("{:>10} {:>12} {:>12} {:>8.4f} {:>16}\n", short_number(flops),
                            short_number(best.parameters), short_number(best.tokens), best.loss,
                            fit.resampled.empty() ? "" : range_text(fit.law_range(best.parameters, best.tokens)));
    }
    return text;
}

ordered_json ScalingReport::json() const {
    ordered_json points = ordered_json::array(), fits = ordered_json::array(), held = ordered_json::array();
    for (const Point& p : points_)
        points.push_back({{"name", p.name},
                          {"parameters", p.parameters},
                          {"parameters_without_embeddings", p.without_embeddings},
                          {"tokens", p.tokens},
                          {"flops", p.flops},
                          {"loss", p.loss},
                          {"held_out", p.held_out}});
    for (const Fit& fit : fits_) {
        ordered_json errors = ordered_json::array();
        for (const Prediction& one : predicted_)
            errors.push_back(fit.law.loss(fit.size_of(*one.point), one.point->tokens) / one.point->loss - 1.0);
        fits.push_back(fit_json(fit));
        fits.back()["held_out_errors"] = std::move(errors);
    }
    for (const Prediction& one : predicted_)
        held.push_back({{"name", one.point->name},
                        {"loss", one.point->loss},
                        {"predicted", one.loss},
                        {"low", one.range.low},
                        {"high", one.range.high},
                        {"error", one.error},
                        {"error_of_best_loss", one.as_best},
                        {"error_of_line", one.as_line}});
    return {{"points", std::move(points)}, {"fits", std::move(fits)}, {"held_out", std::move(held)}};
}

std::string ScalingReport::svg(const std::string& title) const {
    const Fit& fit = fits_.front();
    const Palette palette(fit, points_);
    Chart chart(title, 520);
    double most = 0.0, least = 1e300;
    for (const Point& p : points_) {
        chart.include(fit.flops_of(p), p.loss);
        most = std::max(most, fit.flops_of(p)), least = std::min(least, fit.flops_of(p));
    }
    chart.include(most * 2.0, optimum(fit.law, fit.cost, most * 2.0).loss);
    chart.draw_axes("floating-point operations of the training", "validation loss");
    const auto frontier = [&](double flops) { return optimum(fit.law, fit.cost, flops); };
    if (!fit.resampled.empty())
        chart.band(
            least, most * 2.0,
            [&](double flops) {
                const Optimum best = frontier(flops);
                return fit.law_range(best.parameters, best.tokens);
            },
            "fill=\"#bbb\" fill-opacity=\"0.35\"");
    chart.curve(
        least, most * 2.0, [&](double flops) { return frontier(flops).loss; },
        "stroke=\"#222\" stroke-width=\"1.6\" stroke-dasharray=\"6 4\"");
    chart.explain("best size for the operations", "#222");
    for (const double size : palette.sizes()) {
        const char* const color = palette.color(size);
        chart.curve(
            chart.least_x(), chart.most_x(),
            [&](double flops) { return fit.law.loss(size, fit.cost.tokens(size, flops)); },
            fmt::format("stroke=\"{}\" stroke-width=\"1\" stroke-opacity=\"0.6\"", color));
        chart.explain(short_number(size), color);
    }
    for (const Prediction& one : predicted_)
        if (!fit.resampled.empty())
            chart.bar(fit.flops_of(*one.point), one.range, palette.color(fit.size_of(*one.point)));
    for (const Point& p : points_)
        chart.point(fit.flops_of(p), p.loss, palette.color(fit.size_of(p)), p.held_out,
                    fmt::format("{}: {} parameters, {} tokens, loss {:.4f}{}", p.name, short_number(fit.size_of(p)),
                                short_number(p.tokens), p.loss, p.held_out ? ", held out" : ""));
    return chart.finish();
}

std::string ScalingReport::losses_by_size() const {
    const Fit& fit = fits_.front();
    const Palette palette(fit, points_);
    Chart chart("", 460);
    std::set<double> losses;
    double most = 0.0, least = 1e300;
    for (const Point& p : points_) {
        chart.include(fit.size_of(p), p.tokens);
        losses.insert(p.loss);
        most = std::max(most, fit.flops_of(p)), least = std::min(least, fit.flops_of(p));
    }
    chart.draw_axes(size_name(fit), "tokens");
    constexpr int kLines = 9;
    for (int i = 0; i < kLines; ++i) {
        const double loss = *losses.begin() + (*losses.rbegin() - *losses.begin()) * i / (kLines - 1.0);
        const auto tokens = [&](double size) { return fit.law.tokens_for(size, loss).value_or(std::nan("")); };
        chart.curve(chart.least_x(), chart.most_x(), tokens, "stroke=\"#9aa7b5\" stroke-width=\"1\"");
        // The label is where the line leaves the picture to the right.
        if (const double at = chart.most_x() * 0.72; std::isfinite(tokens(at)))
            chart.label(at, tokens(at), fmt::format("{:.3g}", loss));
    }
    std::vector<Optimum> path;
    for (int i = 0; i <= 48; ++i)
        path.push_back(optimum(fit.law, fit.cost, least * std::pow(most * 4.0 / least, i / 48.0)));
    chart.curve(
        chart.least_x(), chart.most_x(),
        [&](double size) {
            for (std::size_t i = 1; i < path.size(); ++i)
                if (size >= path[i - 1].parameters && size <= path[i].parameters) {
                    const double part = std::log(size / path[i - 1].parameters) /
                                        std::max(std::log(path[i].parameters / path[i - 1].parameters), 1e-12);
                    return path[i - 1].tokens * std::pow(path[i].tokens / path[i - 1].tokens, part);
                }
            return std::nan("");
        },
        "stroke=\"#222\" stroke-width=\"1.6\" stroke-dasharray=\"6 4\"");
    chart.explain("equal loss", "#9aa7b5");
    chart.explain("lowest loss for the operations", "#222");
    for (const Point& p : points_)
        chart.point(fit.size_of(p), p.tokens, palette.color(fit.size_of(p)), p.held_out,
                    fmt::format("{}: loss {:.4f}", p.name, p.loss));
    return chart.finish();
}

std::string ScalingReport::residuals() const {
    const Fit& fit = fits_.front();
    const Palette palette(fit, points_);
    Chart chart("", 280, false);
    chart.linear_y();
    const auto percent_off = [&](const Point& p) {
        return 100.0 * (p.loss / fit.law.loss(fit.size_of(p), p.tokens) - 1.0);
    };
    for (const Point& p : points_) chart.include(fit.flops_of(p), percent_off(p));
    chart.include(fit.flops_of(points_.front()), 0.0);
    chart.draw_axes("floating-point operations of the training", "measured over fitted loss, % more");
    chart.horizontal(0.0);
    for (const Point& p : points_)
        chart.point(fit.flops_of(p), percent_off(p), palette.color(fit.size_of(p)), p.held_out,
                    fmt::format("{}: {:+.2f}%", p.name, percent_off(p)));
    return chart.finish();
}

std::string ScalingReport::page(const std::string& title) const {
    const auto cell = [](const std::string& text) { return "<td class=\"number\">" + text + "</td>"; };
    const Fit& fit = fits_.front();
    std::string constants = "<table><tr><th>Law</th><th>Over</th><th>Constant</th><th class=\"number\">Value</th>"
                            "<th class=\"number\">95 % of the bootstrap</th></tr>\n";
    for (const Fit& one : fits_)
        for (std::size_t i = 0; i < one.law.count(); ++i)
            constants +=
                fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td>{}{}</tr>\n", i == 0 ? form_name(one.law.form) : "",
                            i == 0 ? size_name(one) + backtest_text(one) : "", constant_names(one.law.form)[i],
                            cell(fmt::format("{:.4g}", one.law.constant(i))),
                            cell(one.resampled.empty() ? "" : range_text(one.constant_range(i))));
    constants += "</table>";
    for (const Fit& one : fits_)
        if (const std::string wrong = below_floor_text(one, points_); !wrong.empty())
            constants +=
                fmt::format("<p>{} over {}: {}.</p>\n", form_name(one.law.form), size_name(one), escape_markup(wrong));
    std::string held;
    for (const Prediction& one : predicted_)
        held += fmt::format("<tr><td>{}</td>{}{}{}{}{}{}{}</tr>\n", escape_markup(one.point->name),
                            cell(short_number(fit.flops_of(*one.point))), cell(fmt::format("{:.4f}", one.point->loss)),
                            cell(fmt::format("{:.4f}", one.loss)), cell(range_text(one.range)),
                            cell(signed_percent(one.error)), cell(signed_percent(one.as_best)),
                            cell(signed_percent(one.as_line)));
    if (!held.empty())
        held = "<table><tr><th>Model</th><th class=\"number\">FLOPs</th><th class=\"number\">Loss</th>"
               "<th class=\"number\">Predicted</th><th class=\"number\">95 %</th><th class=\"number\">Error</th>"
               "<th class=\"number\">Error of the best loss so far</th><th class=\"number\">Error of a straight "
               "line</th></tr>\n" +
               held + "</table>";
    std::string best = "<table><tr><th class=\"number\">FLOPs</th><th class=\"number\">Parameters</th>"
                       "<th class=\"number\">Tokens</th><th class=\"number\">Loss</th></tr>\n";
    for (const double flops : budgets()) {
        const Optimum one = optimum(fit.law, fit.cost, flops);
        best += fmt::format("<tr>{}{}{}{}</tr>\n", cell(short_number(flops)), cell(short_number(one.parameters)),
                            cell(short_number(one.tokens)), cell(fmt::format("{:.4f}", one.loss)));
    }
    best += "</table>";
    std::string models = "<table><tr><th>Model</th><th class=\"number\">Parameters</th>"
                         "<th class=\"number\">Without embeddings</th><th class=\"number\">Tokens</th>"
                         "<th class=\"number\">FLOPs</th><th class=\"number\">Loss</th></tr>\n";
    for (const Point& p : points_)
        models +=
            fmt::format("<tr><td>{}</td>{}{}{}{}{}</tr>\n", escape_markup(p.name), cell(grouped(p.parameters)),
                        cell(p.without_embeddings > 0.0 ? grouped(p.without_embeddings) : ""), cell(grouped(p.tokens)),
                        cell(short_number(fit.flops_of(p))), cell(fmt::format("{:.4f}", p.loss)));
    models += "</table>";
    return fill_page(
        "evaluation.html",
        {{"TITLE", escape_markup(title)},
         {"PAGE_CSS", page_file("page.css")},
         {"CSS", page_file("evaluation.css")},
         {"DATA", "Validation loss of models of several sizes, trained on several numbers of tokens."},
         {"SECTIONS", section("Loss over operations", svg("")) + (held.empty() ? "" : section("Held out", held)) +
                          section("Laws", constants) + section("Best size and data", best) +
                          section("Lines of equal loss", losses_by_size()) + section("Residuals", residuals()) +
                          section("Models", models)}});
}

} // namespace hekla::app
