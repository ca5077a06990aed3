// Writes pictures in SVG, element by element.
#pragma once

#include <string>
#include <string_view>

namespace hekla {

// A writer of one picture. Coordinates are pixels from the top left, rounded to hundredths. `attributes` are written
// into the element as they are, such as R"(fill="#fff")"; texts are escaped.
class SvgWriter {
public:
    // Starts a white picture with a font ("sans-serif", "monospace") of a size in pixels.
    SvgWriter(double width, double height, std::string_view font, double font_size, std::string_view attributes = {});

    // tip: the tooltip.
    void rect(double x, double y, double width, double height, std::string_view attributes, std::string_view tip = {});
    void line(double x1, double y1, double x2, double y2, std::string_view attributes);
    void circle(double x, double y, double radius, std::string_view attributes);
    void path(std::string_view data, std::string_view attributes);
    void text(double x, double y, std::string_view text, std::string_view attributes = {});
    // Text that reads upwards, starting at x, y.
    void text_upwards(double x, double y, std::string_view text, std::string_view attributes = {});
    void open_group(std::string_view attributes, std::string_view tip = {});
    void close_group();
    void raw(std::string_view markup) { out_ += markup; } // definitions

    std::string finish() &&;

private:
    std::string out_;
};

// Returns the distance of the marks of an axis: 1, 2 or 5 times a power of ten, such that about `count` of them fill
// `span`.
double tidy_step(double span, int count);

// Formats a coordinate for SVG: rounded to hundredths, without trailing zeros.
std::string svg_number(double value);

} // namespace hekla
