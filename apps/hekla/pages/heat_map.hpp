// A table of numbers from 0 to 1 as a picture: darker cells are larger.
#pragma once

#include <string>
#include <vector>

namespace hekla::app {

struct HeatMap {
    std::vector<std::string> rows, columns; // labels, truncated where they are long
    std::vector<double> values;             // [rows, columns]
    bool root = false;                      // colors are of square roots, so that small numbers are visible
    bool numbers = false;                   // written into the cells too
};

// Returns the picture as SVG. The labels of columns read upwards.
std::string heat_map_svg(const HeatMap& map);

} // namespace hekla::app
