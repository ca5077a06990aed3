// Trained models as points of a scaling law, and the CSV files that contain them.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace hekla::scaling {

// A model that was trained to the end.
struct Point {
    std::string name;
    double parameters = 0.0;
    double without_embeddings = 0.0; // parameters that are not embeddings; 0: not known
    double tokens = 0.0;             // that it was trained on, repeated ones included
    double flops = 0.0;              // of its training; 0: not known
    double loss = 0.0;               // nats per token of validation text
    bool held_out = false;           // not fitted: the law predicts it

    double known_flops() const { return flops > 0.0 ? flops : 6.0 * parameters * tokens; } // 6 N D where not known
};

// The column of a file for each of "name", "parameters", "parameters_without_embeddings", "tokens", "flops", "loss" and
// "held_out"; missing: the same name.
using Columns = std::map<std::string, std::string>;

// Reads points. Columns that a file lacks are not known; parameters, loss, and tokens or flops are required. Without
// tokens these are flops / (6 parameters). Errors name file, line and column: not a number, not above 0.
Result<std::vector<Point>> read_points(const std::string& file, const Columns& columns);

// Returns the points as CSV with the columns above.
std::string points_csv(std::span<const Point> points);

} // namespace hekla::scaling
