// Results as lm-evaluation-harness writes them, so that its readers read them: results.json and samples_TASK.jsonl.
#pragma once

#include "harness/evaluate.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace hekla::harness {

// How the results were made, for the file.
struct ResultsOf {
    std::string model; // as given
    RunOptions options;
    double seconds = 0.0;
};

// Returns the object of results.json: results{TASK: {"METRIC,FILTER", "METRIC_stderr,FILTER"}}, group_subtasks,
// configs, versions, n-shot, higher_is_better, n-samples, config and more. A score without a standard error has "N/A".
// In addition results have "truncated_prompts", "joined_tokens" and, with a chat template, "prompts_without_system":
// TaskResult::cut, joined and without_system.
nlohmann::ordered_json results_json(const ResultsOf& of, std::span<const TaskResult> results);

// Returns the lines of samples_TASK.jsonl: one per document and filter.
std::string samples_lines(const TaskResult& result);

} // namespace hekla::harness
