// The curve of reward against the distance from the reference: what a training gains, and how far it moves.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::app {

// A mean over texts.
struct FrontierPoint {
    double kl = 0.0;       // nats of a text, from the reference
    double gold = 0.0;     // the reward that is measured
    double error = 0.0;    // standard error of gold; 0: not known
    double trained = 0.0;  // the score that was trained or chosen by
    int64_t number = 0;    // of the last step of the mean, or of completions to choose from; 0: none
    std::size_t texts = 0; // 0: not known
};

struct FrontierSeries {
    std::string name, kind; // kind: run, model, best_of
    std::vector<FrontierPoint> points;
};

nlohmann::ordered_json frontier_json(const std::string& gold, const std::vector<FrontierSeries>& all);
// Returns the picture: gold over the square root of KL, which is drawn as 0 where an estimate is negative.
std::string frontier_svg(const std::string& title, const std::string& gold, const std::vector<FrontierSeries>& all);
std::string frontier_table(const std::string& gold, const std::vector<FrontierSeries>& all); // Markdown

} // namespace hekla::app
