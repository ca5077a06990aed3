// A picture of weights between 0 and 1: one cell each, with labels.
#pragma once

#include "observatory.hpp"

#include <functional>

namespace observatory {

struct WeightGrid {
    const char* name = "";                  // of the control
    std::vector<std::string> rows, columns; // labels
    std::function<float(std::size_t row, std::size_t column)> weight;
    bool numbers = false;          // written into the cells, where there is room
    std::size_t marked = SIZE_MAX; // a row
};

// Draws the picture into a scrolling child of this size. Returns the row that was clicked, or SIZE_MAX.
std::size_t draw_weights(Observatory& app, const WeightGrid& grid, ImVec2 size);

} // namespace observatory
