// Tasks as TOML files.
#pragma once

#include "base/status.hpp"
#include "harness/task.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::harness {

// Reads a task. Errors name file, line and key, what was expected, and the nearest known name: unknown keys, filters
// and metrics; a metric that the output type does not have; missing or contradicting keys.
Result<Task> read_task(const std::filesystem::path& file);
Result<Task> parse_task(std::string_view text, const std::string& name);

// Returns the tasks of files and of folders (their *.toml, sorted). Errors: those of read_task(); a folder without
// tasks; two tasks of one name.
Result<std::vector<Task>> read_tasks(const std::vector<std::string>& paths);

} // namespace hekla::harness
