// An adapter with the body that it was trained with: of a run's folder, or as PEFT or AdapterHub saved it.
#pragma once

#include "infer/adapters/adapter_folder.hpp"
#include "model/folder.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/model_names.hpp"

#include <optional>

namespace hekla::app {

struct AdaptedModel {
    model::ModelFolder body;
    std::optional<model::ModelFolder> own;       // the run's folder
    std::optional<infer::AdapterFolder> foreign; // or another library's
    nlohmann::json config;                       // of the model with the adapter: its "hekla" member names the parts
    plugin::CompositionSpec spec;
    std::unique_ptr<plugin::Composition> composition;
    plugin::Described described; // for the smallest batch, with BuildRequest::merged if that was asked for

    // The tensors of the model's parameters and buffers, from the adapter's folder where they are there. Views into
    // this object.
    std::vector<plugin::StoredTensor> tensors;
    std::vector<model::TensorView> adapter_tensors; // of the adapter's folder: the adapter, and what is saved whole

    // Returns the folder with the model's configuration and tokenizer: another library's has none of its own.
    const model::ModelFolder& folder() const { return own ? *own : body; }
    // The id of the only adapter, or the combination of several: "lora", "fusion(a, b)".
    std::string adapter_text() const;
    // Returns whether it is one LoRA adapter.
    bool is_lora() const { return spec.combination.empty() && spec.adapters.at(0).part.id == "lora"; }
    // The configuration of the only adapter; of several, ids and configurations by name.
    nlohmann::json adapter_config() const;
};

// adapter: the folder of a run or of another library; body: the folder of its body, "" for the one that the adapter
// names. Errors: those of the folders; a body with other weights; tensors that belong to nothing, and sites without
// tensors, by name.
Result<AdaptedModel> open_adapted_model(const plugin::Registry& registry, const std::filesystem::path& adapter,
                                        const std::filesystem::path& body, bool merged, const Log& log);

} // namespace hekla::app
