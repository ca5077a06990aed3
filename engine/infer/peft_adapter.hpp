// Adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors, whose tensors have the names of
// PEFT's modules. Config keys and names are converted to those of Hekla's adapter plugins and back.
#pragma once

#include "model/weights.hpp"

#include <nlohmann/json.hpp>
#include <optional>

namespace hekla::infer {

struct PeftAdapter {
    std::string id;        // of Hekla's plugin
    nlohmann::json config; // its configuration
    std::string base;      // base_model_name_or_path, "" if there is none
    model::Weights weights;
    std::vector<model::TensorView> tensors; // of the weights, with Hekla's names
};

// Returns whether the folder contains an adapter_config.json; read_peft_folder() checks that PEFT saved it.
bool is_peft_folder(const std::filesystem::path& folder);

// Errors: missing or damaged files; a kind of adapter, an option or a tensor that is not supported, by name.
Result<PeftAdapter> read_peft_folder(const std::filesystem::path& folder);

// Returns PEFT's name of an adapter's tensor, or of a module's parameter that is saved whole.
std::string peft_name(const std::string& name);
// Returns Hekla's name, or nothing if it is not a name that PEFT gives.
std::optional<std::string> name_from_peft(const std::string& name);

} // namespace hekla::infer
