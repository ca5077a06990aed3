// LoRA as AdapterHub's library saves it: config.architecture is "lora".
#pragma once

#include "infer/adapters/adapter_folder.hpp"

namespace hekla::infer {

// Opens adapter.safetensors, or else pytorch_adapter.bin.
Result<model::Weights> open_adapterhub_weights(const std::filesystem::path& folder);

// config: the contents of adapter_config.json; file: its path, for messages. Errors: damaged or missing files; an
// option or a tensor that is not supported, by name.
Result<AdapterFolder> read_adapterhub_lora(const std::filesystem::path& folder, const nlohmann::json& config,
                                           const std::string& file);

} // namespace hekla::infer
