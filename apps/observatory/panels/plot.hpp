// Curves over steps, with axes, a grid, a legend, and the values under the mouse.
#pragma once

#include "gui/style.hpp"
#include "models/curves.hpp"

#include <span>
#include <string>

namespace observatory {

struct PlotCurve {
    std::string name;
    const Curve* curve;
    ImU32 color;
    float width = 1.6F;
    bool dots = false; // for curves with few values: marks each of them
};

struct PlotOptions {
    std::string title, unit; // "Loss", "by step"
    bool logarithmic = false;
    bool compact = false; // axis labels in the form 1e-4
    const char* empty = "no steps yet";
};

// Draws a plot of this size at ImGui's cursor.
void plot(const PlotOptions& options, std::span<const PlotCurve> curves, ImVec2 size, const Fonts& fonts);

// Returns an exponential moving average: a value `span` steps back has the weight 1/e.
Curve smoothed(const Curve& curve, double span);

} // namespace observatory
