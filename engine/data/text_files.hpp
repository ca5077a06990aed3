// Finds the files for inputs given as files, folders and patterns.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace hekla::data {

// Every input is a file; a folder (all files below it, except names that begin with a dot); or a pattern with `*`, `?`,
// `[...]` and `**` for any number of folders. Files are returned in the order of inputs, those of one input sorted by
// path, each once. Errors: an input that matches nothing, a folder that cannot be read.
Result<std::vector<std::filesystem::path>> find_text_files(std::span<const std::string> inputs);

} // namespace hekla::data
