#include "base/svg.hpp"

#include "base/markup.hpp"

#include <cmath>
#include <fmt/format.h>

namespace hekla {
namespace {

std::string with_space(std::string_view attributes) {
    return attributes.empty() ? std::string() : " " + std::string(attributes);
}

} // namespace

std::string svg_number(double value) {
    std::string text = fmt::format("{:.2f}", value);
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    return text == "-0" ? "0" : text;
}

double tidy_step(double span, int count) {
    const double rough = span / count;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * power >= rough) return factor * power;
    return 10.0 * power;
}

SvgWriter::SvgWriter(double width, double height, std::string_view font, double font_size, std::string_view attributes)
    : out_(fmt::format(
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
          "font-family=\"{2}\" font-size=\"{3}\"{4}>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
          svg_number(width), svg_number(height), font, svg_number(font_size), with_space(attributes))) {}

void SvgWriter::rect(double x, double y, double width, double height, std::string_view attributes,
                     std::string_view tip) {
    out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}", svg_number(x), svg_number(y),
                        svg_number(width), svg_number(height), with_space(attributes));
    out_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escape_markup(tip));
}

void SvgWriter::line(double x1, double y1, double x2, double y2, std::string_view attributes) {
    out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", svg_number(x1), svg_number(y1),
                        svg_number(x2), svg_number(y2), with_space(attributes));
}

void SvgWriter::circle(double x, double y, double radius, std::string_view attributes) {
    out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>\n", svg_number(x), svg_number(y), svg_number(radius),
                        with_space(attributes));
}

void SvgWriter::path(std::string_view data, std::string_view attributes) {
    out_ += fmt::format("<path d=\"{}\"{}/>\n", data, with_space(attributes));
}

void SvgWriter::text(double x, double y, std::string_view text, std::string_view attributes) {
    out_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", svg_number(x), svg_number(y), with_space(attributes),
                        escape_markup(text));
}

void SvgWriter::text_upwards(double x, double y, std::string_view text, std::string_view attributes) {
    out_ += fmt::format("<text transform=\"translate({},{}) rotate(-90)\"{}>{}</text>\n", svg_number(x), svg_number(y),
                        with_space(attributes), escape_markup(text));
}

void SvgWriter::open_group(std::string_view attributes, std::string_view tip) {
    out_ += fmt::format("<g{}>", with_space(attributes));
    if (!tip.empty()) out_ += fmt::format("<title>{}</title>", escape_markup(tip));
    out_ += '\n';
}

void SvgWriter::close_group() { out_ += "</g>\n"; }

std::string SvgWriter::finish() && { return std::move(out_) + "</svg>\n"; }

} // namespace hekla
