// What people give as the path of a model: a folder, the Hub's cache of one, a name on the Hub, a GGUF file.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace hekla::model {

// Returns the folder of a model, a run or an adapter: the given one, or the snapshot of a folder of the Hub's cache
// (models--ORG--NAME, with refs/ and snapshots/). Errors say what a path that is not a folder is, and what to do:
// a name on the Hub, a GGUF file, a folder of GGUF files.
Result<std::filesystem::path> find_model_folder(const std::filesystem::path& given);

// Returns failed_precondition if the content is a pointer of git-lfs in place of the file.
Status check_not_pointer(const std::filesystem::path& file, std::string_view content);

// Returns unsupported if the weights of this config.json's folder are quantized. file: its path.
Status check_not_quantized(const nlohmann::json& config, const std::filesystem::path& file);

} // namespace hekla::model
