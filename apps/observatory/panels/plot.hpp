// Curves over steps, with axes, a grid, a legend, and what lies under the mouse.
#pragma once

#include "gui/style.hpp"
#include "models/curves.hpp"

#include <span>
#include <string>

namespace observatory {

struct PlotCurve {
    std::string name;
    const Curve* curve;
    ImU32 colour;
    float width = 1.6F;
    bool dots = false; // few values: each of them is marked
};

struct PlotOptions {
    std::string title, unit; // "Loss", "by step"
    bool logarithmic = false;
    bool compact = false; // numbers of the axis as 1e-4
    const char* empty = "no steps yet";
};

// Fills `size` at ImGui's cursor.
void plot(const PlotOptions& options, std::span<const PlotCurve> curves, ImVec2 size, const Fonts& fonts);

// A moving mean that weighs what is `span` steps back by 1/e.
Curve smoothed(const Curve& curve, double span);

} // namespace observatory
