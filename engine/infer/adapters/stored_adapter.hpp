// An adapter in a folder, without its body: of a run, of PEFT or of AdapterHub.
#pragma once

#include "infer/adapters/adapter_folder.hpp"
#include "model/folder.hpp"
#include "plugin/host/site.hpp"

#include <optional>

namespace hekla::infer {

struct StoredAdapter {
    std::filesystem::path path;
    std::string id;        // of its plugin
    nlohmann::json config; // its configuration
    std::string weights;   // hash of the body's weights that it was trained with; "" if the folder does not contain it
    std::optional<model::ModelFolder> own;
    std::optional<AdapterFolder> foreign;

    // Its tensors, with Hekla's names for one adapter without a name; what is saved whole, too. Of AdapterHub's folders
    // only after name_tensors(). Views into this object.
    const std::vector<model::TensorView>& tensors() const;
    // Gives the tensors the names that they have in a model with these sites. Errors: a tensor of no site.
    Status name_tensors(const std::vector<plugin::Site>& sites);
};

// Returns unsupported for the configuration of several adapters that were trained at once (adapter.names of a recipe).
Status check_one_adapter(const nlohmann::json& adapter_config, const std::filesystem::path& folder);

// Errors: those of the folder; a model that is not an adapter, or contains several.
Result<StoredAdapter> open_stored_adapter(const std::filesystem::path& folder);

} // namespace hekla::infer
