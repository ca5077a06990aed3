// An evaluation as a page of its own: scores, the run's curves, the confusion matrix with a table of classes, and what
// was said of examples, the wrong ones first. Nothing is fetched from anywhere.
#pragma once

#include "pages/alignment.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::app {

struct EvaluationPage {
    std::string title;    // eg: the run's folder
    std::string data;     // which: "validation data", "test data"
    std::string log_file; // the run's train_log.jsonl, for curves; one that is not there leaves them out
    std::vector<std::pair<std::string, double>> scores;
    std::string group;                               // the recipe's data.group; may be empty
    std::vector<nlohmann::ordered_json> predictions; // "place", columns, "group", "said"
    std::vector<Alignment> alignments;               // of the first texts that were written
    std::string notes;                               // what else was told, as it stands
};

std::string evaluation_page(const EvaluationPage& page);

} // namespace hekla::app
