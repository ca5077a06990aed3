// AdapterHub's prefixes and prompts, as configurations and tensors of Hekla's adapters with virtual tokens.
#pragma once

#include "infer/adapters/adapter_folder.hpp"

#include <filesystem>

namespace hekla::infer {

// config: the contents of adapter_config.json, whose "config" is an object of the architecture "prefix_tuning" or
// "prompt_tuning"; file: its path, for messages. Errors: damaged or missing files; an option or a tensor that is not
// supported, by name.
Result<AdapterFolder> read_adapterhub_prefix(const std::filesystem::path& folder, const nlohmann::json& config,
                                             const std::string& file);
Result<AdapterFolder> read_adapterhub_prompt(const std::filesystem::path& folder, const nlohmann::json& config,
                                             const std::string& file);

} // namespace hekla::infer
