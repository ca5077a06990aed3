#include "scaling_report.hpp"

#include "base/chart.hpp"
#include "base/markup.hpp"
#include "base/number_text.hpp"
#include "pages/page.hpp"
#include "scaling/fit_json.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace hekla::app {
namespace {

using namespace scaling;
using nlohmann::ordered_json;

std::string range_text(const Range& range) { return fmt::format("{:.4g} to {:.4g}", range.low, range.high); }
std::string signed_percent(double error) { return fmt::format("{:+.2f}%", 100.0 * error); }

// The sizes that a picture has colors for: all of a ladder's, or some of many.
class Palette {
public:
    Palette(const Fit& fit, const std::vector<Point>& points) {
        std::set<double> all;
        for (const Point& p : points) all.insert(fit.size_of(p));
        const std::vector<double> sorted(all.begin(), all.end());
        constexpr std::size_t kMost = 12;
        const std::size_t count = std::min(sorted.size(), kMost);
        for (std::size_t i = 0; i < count; ++i)
            sizes_.push_back(sorted[count > 1 ? i * (sorted.size() - 1) / (count - 1) : 0]);
    }
    const std::vector<double>& sizes() const { return sizes_; }
    // Returns the color of the nearest size.
    std::string color(double size) const {
        const auto nearest =
            std::ranges::min_element(sizes_, {}, [&](double one) { return std::abs(std::log(one) - std::log(size)); });
        return series_stroke(static_cast<std::size_t>(nearest - sizes_.begin())).color;
    }

private:
    std::vector<double> sizes_;
};

// Draws a model; one that is held out is hollow.
void draw_point(Chart& chart, double x, double y, const std::string& color, const Point& point,
                const std::string& tip) {
    chart.dot(x, y, color, point.held_out ? 4.6 : 3.6, tip, point.held_out);
}

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
    const Stroke dashed{.color = "#555", .dash = "6 4"};
    ChartLayout layout{.title = title, .legend = {{"best size for the operations", dashed}}, .height = 390};
    for (const double size : palette.sizes())
        layout.legend.emplace_back(short_number(size), Stroke{.color = palette.color(size)});
    Chart chart(layout);
    chart.x.logarithmic = chart.y.logarithmic = true;
    double most = 0.0, least = 1e300;
    for (const Point& p : points_) {
        chart.x.include(fit.flops_of(p));
        chart.y.include(p.loss);
        most = std::max(most, fit.flops_of(p)), least = std::min(least, fit.flops_of(p));
    }
    const auto frontier = [&](double flops) { return optimum(fit.law, fit.cost, flops); };
    chart.x.include(most * 2.0);
    chart.y.include(frontier(most * 2.0).loss);
    chart.x.widen(0.06);
    chart.y.widen(0.06);
    chart.draw_axes({.name = "floating-point operations of the training", .text = short_number},
                    {.name = "validation loss"});
    if (!fit.resampled.empty())
        chart.band(least, most * 2.0, [&](double flops) {
            const Optimum best = frontier(flops);
            const Range range = fit.law_range(best.parameters, best.tokens);
            return std::pair(range.low, range.high);
        });
    chart.curve(
        least, most * 2.0, [&](double flops) { return frontier(flops).loss; }, dashed);
    for (const double size : palette.sizes())
        chart.curve(chart.x.low(), chart.x.high(),
                    [&](double flops) { return fit.law.loss(size, fit.cost.tokens(size, flops)); },
                    {.color = palette.color(size), .width = 1.0, .opacity = 0.6});
    for (const Prediction& one : predicted_)
        if (!fit.resampled.empty())
            chart.interval(fit.flops_of(*one.point), one.range.low, one.range.high,
                           palette.color(fit.size_of(*one.point)));
    for (const Point& p : points_)
        draw_point(chart, fit.flops_of(p), p.loss, palette.color(fit.size_of(p)), p,
                   fmt::format("{}: {} parameters, {} tokens, loss {:.4f}{}", p.name, short_number(fit.size_of(p)),
                               short_number(p.tokens), p.loss, p.held_out ? ", held out" : ""));
    return chart.finish();
}

std::string ScalingReport::losses_by_size() const {
    const Fit& fit = fits_.front();
    const Palette palette(fit, points_);
    const Stroke equal{.color = "#9aa7b5", .width = 1.0}, dashed{.color = "#555", .dash = "6 4"};
    Chart chart({.legend = {{"equal loss", equal}, {"lowest loss for the operations", dashed}}, .height = 330});
    chart.x.logarithmic = chart.y.logarithmic = true;
    double least_loss = 1e300, most_loss = 0.0, most = 0.0, least = 1e300;
    for (const Point& p : points_) {
        chart.x.include(fit.size_of(p));
        chart.y.include(p.tokens);
        least_loss = std::min(least_loss, p.loss), most_loss = std::max(most_loss, p.loss);
        most = std::max(most, fit.flops_of(p)), least = std::min(least, fit.flops_of(p));
    }
    chart.x.widen(0.06);
    chart.y.widen(0.06);
    chart.draw_axes({.name = size_name(fit), .text = short_number}, {.name = "tokens", .text = short_number});
    constexpr int kLines = 9;
    for (int i = 0; i < kLines; ++i) {
        const double loss = least_loss + (most_loss - least_loss) * i / (kLines - 1.0);
        const auto tokens = [&](double size) { return fit.law.tokens_for(size, loss).value_or(std::nan("")); };
        chart.curve(chart.x.low(), chart.x.high(), tokens, equal);
        const double at = chart.x.high() * 0.72; // near where the line leaves the picture to the right
        if (chart.y.contains(tokens(at))) chart.label(at, tokens(at), fmt::format("{:.3g}", loss));
    }
    std::vector<std::pair<double, double>> path;
    for (int i = 0; i <= 48; ++i) {
        const Optimum best = optimum(fit.law, fit.cost, least * std::pow(most * 4.0 / least, i / 48.0));
        if (chart.x.contains(best.parameters) && chart.y.contains(best.tokens))
            path.emplace_back(best.parameters, best.tokens);
    }
    chart.line(path, dashed);
    for (const Point& p : points_)
        draw_point(chart, fit.size_of(p), p.tokens, palette.color(fit.size_of(p)), p,
                   fmt::format("{}: loss {:.4f}", p.name, p.loss));
    return chart.finish();
}

std::string ScalingReport::residuals() const {
    const Fit& fit = fits_.front();
    const Palette palette(fit, points_);
    Chart chart({.height = 212});
    chart.x.logarithmic = true;
    const auto percent_off = [&](const Point& p) {
        return 100.0 * (p.loss / fit.law.loss(fit.size_of(p), p.tokens) - 1.0);
    };
    chart.y.include(0.0);
    for (const Point& p : points_) {
        chart.x.include(fit.flops_of(p));
        chart.y.include(percent_off(p));
    }
    chart.x.widen(0.06);
    chart.y.widen(0.06);
    chart.draw_axes({.name = "floating-point operations of the training", .text = short_number},
                    {.name = "measured over fitted loss, % more"});
    chart.horizontal(0.0, {.color = "#777", .width = 1.0, .dash = "5 4"});
    for (const Point& p : points_)
        draw_point(chart, fit.flops_of(p), percent_off(p), palette.color(fit.size_of(p)), p,
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
