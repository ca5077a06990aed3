// Charts: where scales put values, tidy marks, and what is drawn.
#include "base/chart.hpp"
#include "base/curves.hpp"

#include <cmath>
#include <doctest/doctest.h>

using namespace hekla;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

} // namespace

TEST_CASE("scales: shares of a range, linear, logarithmic and falling; marks at tidy values inside it") {
    Scale linear;
    CHECK(linear.is_empty());
    CHECK(linear.share(0.25) == 0.25);
    for (const double value : {-1.0, 3.0, std::nan("")}) linear.include(value);
    CHECK(linear.low() == -1.0);
    CHECK(linear.high() == 3.0);
    CHECK(linear.share(0.0) == 0.25);
    CHECK(linear.value(0.25) == 0.0);
    CHECK(linear.marks(4) == std::vector<double>{-1.0, 0.0, 1.0, 2.0, 3.0});
    CHECK_FALSE(std::signbit(linear.marks(4)[1]));
    CHECK_FALSE(linear.contains(3.5));
    linear.widen(0.25);
    CHECK(linear.high() == 4.0);

    Scale logarithmic;
    logarithmic.logarithmic = logarithmic.falling = true;
    for (const double value : {1.0, 100.0, 0.0, -5.0}) logarithmic.include(value);
    CHECK(logarithmic.share(10.0) == doctest::Approx(0.5));
    CHECK(logarithmic.share(100.0) == doctest::Approx(0.0));
    CHECK(logarithmic.value(0.0) == doctest::Approx(100.0));
    CHECK(logarithmic.marks(5).size() == 7); // 1, 2, 5, 10, 20, 50, 100
    CHECK_FALSE(logarithmic.contains(-1.0));

    Scale single;
    single.include(5.0);
    CHECK(single.marks(4) == std::vector<double>{5.0});
    single.widen(0.0);
    CHECK(single.low() < 5.0);
    CHECK(single.high() > 5.0);
}

TEST_CASE("charts: series, legend, tooltips and panels; light and dark; nothing without data") {
    Chart chart({.title = "a < b", .legend = {{"one", series_stroke(0)}, {"two", series_stroke(1)}}});
    for (const double value : {0.0, 10.0}) chart.x.include(value), chart.y.include(value);
    chart.draw_axes({.name = "steps"}, {.name = "loss"});
    chart.line({{0.0, 0.0}, {5.0, std::nan("")}, {10.0, 10.0}}, series_stroke(0));
    chart.curve(
        0.0, 10.0, [](double x) { return x < 4.0 ? x : 100.0; }, series_stroke(1)); // ends inside
    chart.dot(5.0, 5.0, "#123456", 3.0, "the & tip");
    const std::string svg = chart.finish();
    for (const char* part : {"a &lt; b", ">one<", ">two<", ">steps<", ">loss<", "the &amp; tip", "#123456", "</svg>",
                             "prefers-color-scheme: dark"})
        CHECK_MESSAGE(svg.find(part) != std::string::npos, part);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(count(svg, "<path") == 2);
    CHECK(series_stroke(0).color != series_stroke(1).color);
    CHECK(series_stroke(12).color == series_stroke(0).color);
    CHECK(series_stroke(12).dash != series_stroke(0).dash);

    const std::vector<Curve> curves{{"first", "#111111", {{1, 2.0}, {2, 1.0}}}, {"second", "#222222", {{1, 1e-4}}}};
    const std::string one = curve_svg("both", curves), two = panels_svg("each", curves);
    for (const std::string* picture : {&one, &two}) {
        CHECK(picture->find("first (1") != std::string::npos);
        CHECK(picture->find("second (0.0001") != std::string::npos);
        CHECK(picture->find(">step<") != std::string::npos);
        CHECK(picture->find("nan") == std::string::npos);
    }
    CHECK(curve_svg("none", {{"first", "#111111"}}).find("nothing was logged yet") != std::string::npos);
    CHECK(panels_svg("none", {}).find("nothing was logged yet") != std::string::npos);
}
