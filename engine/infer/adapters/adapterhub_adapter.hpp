// Adapters as AdapterHub's library saves them: bottleneck adapters, and LoRA (adapterhub_lora.hpp).
#pragma once

#include "infer/adapters/adapter_folder.hpp"
#include "plugin/host/site.hpp"

namespace hekla::infer {

// config: the contents of adapter_config.json; file: its path, for messages. Tensors of bottleneck
// adapters keep AdapterHub's names. Errors:
// damaged or missing files; another kind of adapter.
Result<AdapterFolder> read_adapterhub_adapter(const std::filesystem::path& folder, const nlohmann::json& config,
                                              const std::string& file);

// "bert.encoder.layer.0.output.adapters.NAME.adapter_up.weight" ->
// "adapter.bert.encoder.layer.0.output.dense.adapter_up.weight". Errors: a tensor that belongs to no site.
Status name_adapterhub_tensors(AdapterFolder& adapter, const std::vector<plugin::Site>& sites);

} // namespace hekla::infer
