// Pictures of curves over the steps of a training.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hekla {

struct Curve {
    std::string name;
    std::string color;
    std::vector<std::pair<int64_t, double>> points = {}; // (step, value)
    double opacity = 1.0;
};
// Returns a self-contained SVG of curves over steps, or over the quantity `axis`, with axes, a grid and a legend.
std::string curve_svg(const std::string& title, const std::vector<Curve>& curves, const std::string& axis = "step");
// Returns a self-contained SVG with a panel for each curve, for quantities of different scales over steps.
std::string panels_svg(const std::string& title, const std::vector<Curve>& curves);

} // namespace hekla
