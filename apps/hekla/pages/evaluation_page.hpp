// A self-contained HTML page of an evaluation: scores, learning curves, confusion matrix and scores of classes, and
// predictions, wrong ones first.
#pragma once

#include "pages/alignment.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::app {

struct EvaluationPage {
    std::string title;    // such as the run's folder
    std::string data;     // "validation data", "test data"
    std::string log_file; // the run's train_log.jsonl, for curves; without it there are none
    std::vector<std::pair<std::string, double>> scores;
    std::string group;                               // the recipe's data.group; may be empty
    std::vector<nlohmann::ordered_json> predictions; // "place", columns, "group", "said"
    std::vector<Alignment> alignments;               // of the first generated texts
    nlohmann::ordered_json routing;                  // what hk_evaluate_options.routing got; may be null
    std::string notes;                               // other messages
};

std::string evaluation_page(const EvaluationPage& page);

} // namespace hekla::app
