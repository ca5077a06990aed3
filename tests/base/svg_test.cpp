#include "base/svg.hpp"

#include <doctest/doctest.h>

TEST_CASE("svg: numbers are rounded and short, texts are escaped, groups are closed") {
    CHECK(hekla::svg_number(1.0) == "1");
    CHECK(hekla::svg_number(-0.001) == "0");
    CHECK(hekla::svg_number(2.345) == "2.35");
    CHECK(hekla::svg_number(10.0) == "10");
    hekla::SvgWriter svg(20, 10.5, "monospace", 12, "class=\"map\"");
    svg.open_group("transform=\"translate(0 4)\"", "a < b");
    svg.rect(1, 2, 3, 4, "fill=\"#123\"", "\"tip\"");
    svg.text(0.125, 7, "<&>", "fill=\"#222\"");
    svg.close_group();
    CHECK(std::move(svg).finish() ==
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 20 10.5\" width=\"20\" height=\"10.5\" "
          "font-family=\"monospace\" font-size=\"12\" class=\"map\">\n<rect width=\"100%\" height=\"100%\" "
          "fill=\"#fff\"/>\n<g transform=\"translate(0 4)\"><title>a &lt; b</title>\n<rect x=\"1\" y=\"2\" width=\"3\" "
          "height=\"4\" fill=\"#123\"><title>&quot;tip&quot;</title></rect>\n<text x=\"0.12\" y=\"7\" "
          "fill=\"#222\">&lt;&amp;&gt;</text>\n</g>\n</svg>\n");
}
