// A self-contained HTML page of evaluated tasks: scores of all models, reliability diagrams of multiple choice, and
// answers, wrong ones first.
#pragma once

#include "harness/evaluate.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::app {

struct EvaluatedModel {
    std::string name;
    std::string prompts; // how they were written, if not as the tasks have them: "in the model's own chat template"
    std::vector<harness::TaskResult> results; // the same tasks for all models, in the same order
};

std::string tasks_page(std::span<const EvaluatedModel> models);

// Returns "0.8123 ± 0.0131", or the value alone.
std::string score_text(const harness::Score& score);

} // namespace hekla::app
