// Adapters as PEFT saves them: configurations and names of tensors, converted to Hekla's and back.
#pragma once

#include "infer/adapters/adapter_folder.hpp"
#include "plugin/host/site.hpp"

#include <optional>

namespace hekla::infer {

// config: the contents of adapter_config.json; file: its path, for messages. Errors: damaged or missing files; a kind
// of adapter, an option or a tensor that is not supported, by name.
Result<AdapterFolder> read_peft_adapter(const std::filesystem::path& folder, const nlohmann::json& config,
                                        const std::string& file);

// Returns PEFT's name of an adapter's tensor, or of a parameter of the body that is saved with it. sites: those of the
// adapter's model.
std::string peft_name(const std::string& name, const std::vector<plugin::Site>& sites);
// Returns Hekla's name, or nothing if it is not a name that PEFT gives.
std::optional<std::string> name_from_peft(const std::string& name);

} // namespace hekla::infer
