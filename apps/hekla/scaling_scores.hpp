// Scores of tasks over the models of a ladder: how an ability changes with size.
#pragma once

#include "pages/tasks_page.hpp"
#include "scaling/points.hpp"
#include "scaling/trend.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::app {

class ScalingScores {
public:
    // The models have the same tasks in the same order, and belong to the points.
    ScalingScores(std::vector<scaling::Point> points, std::vector<EvaluatedModel> models);

    std::string table() const; // for people
    nlohmann::ordered_json json() const;
    // Self-contained HTML: the table, and for each score a picture.
    std::string page(const std::string& title) const;
    // Names of files and the pictures: each score over parameters, a line for each number of tokens.
    std::vector<std::pair<std::string, std::string>> pictures() const;

private:
    struct Column; // a score of a task
    std::vector<Column> columns() const;
    std::string picture(const Column& column) const;

    std::vector<scaling::Point> points_; // by FLOPs
    std::vector<EvaluatedModel> models_; // in the same order
};

} // namespace hekla::app
