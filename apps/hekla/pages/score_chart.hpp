// A picture of scores over a number: of demonstrations, of parameters.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace hekla::app {

struct ScorePoint {
    double x = 0.0, y = 0.0;
    double error = 0.0; // standard error; 0: none is drawn
};

struct ScoreLine {
    std::string name;
    std::vector<ScorePoint> points; // x ascending
};

struct ScoreAxes {
    std::string x, y;           // their names
    bool logarithmic_x = false; // every x is above 0
};

// Returns an SVG: a line with dots and bars of one standard error for each of the lines, and their names. Points whose
// score is not finite are left out.
std::string score_chart(std::span<const ScoreLine> lines, const ScoreAxes& axes);

} // namespace hekla::app
