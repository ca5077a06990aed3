// Reads adapters of other libraries: PEFT (adapter_config.json with "peft_type" and adapter_model.safetensors) and
// AdapterHub (adapter_config.json with "config" and adapter.safetensors). Configurations and names of tensors are
// converted to those of Hekla's adapter plugins.
#pragma once

#include "infer/adapters/adapter_folder.hpp"
#include "plugin/host/site.hpp"

namespace hekla::infer {

// Returns whether the folder contains an adapter_config.json.
bool is_adapter_folder(const std::filesystem::path& folder);

// Errors: missing or damaged files; a kind of adapter, an option or a tensor that is not supported, by name. Names of
// AdapterHub's tensors are converted by name_by_sites().
Result<AdapterFolder> read_adapter_folder(const std::filesystem::path& folder);

// Gives the tensors the names that they have in a model with these sites. Errors: a tensor of no site.
Status name_by_sites(AdapterFolder& adapter, const std::vector<plugin::Site>& sites);

} // namespace hekla::infer
