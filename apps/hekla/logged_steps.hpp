// The folder of a run: whether it is one, and the records of its log by step.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace hekla::app {

// Refuses a folder that is not a run's: one without recipe.toml, tokenizer.json or train_log.jsonl.
Status check_run(const std::filesystem::path& run);

struct LoggedStep {
    nlohmann::json step, evaluation; // null if there is none
};

// Returns the records of train_log.jsonl by step, without an unfinished line at its end. Errors name the line.
Result<std::map<int64_t, LoggedStep>> read_log(const std::filesystem::path& run);

} // namespace hekla::app
