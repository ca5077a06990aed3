// The results of `hekla scale fit`: a table, JSON, pictures and a page.
#pragma once

#include "scaling/fit.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::app {

// The fits of one set of points, which must outlive this.
class ScalingReport {
public:
    explicit ScalingReport(const std::vector<scaling::Point>& points) : points_(points) {}
    void add(scaling::Fit fit);

    // The constants of each fit; what the first predicts: held-out points, and the best size and data for more FLOPs.
    std::string table() const;
    nlohmann::ordered_json json() const; // {"points", "fits", "held_out"}
    // Loss over FLOPs: points, the first law for each size, its optimum with the range of the bootstrap.
    std::string svg(const std::string& title) const;
    std::string page(const std::string& title) const; // self-contained HTML

private:
    std::string losses_by_size() const;  // lines of equal loss over size and tokens, as SVG
    std::string residuals() const;       // SVG
    std::vector<double> budgets() const; // FLOPs that the optimum is given for
    const std::vector<scaling::Point>& points_;
    std::vector<scaling::Fit> fits_;
    std::vector<scaling::Prediction> predicted_; // of the first fit
};

} // namespace hekla::app
