// A model's folder explained by the plugins: which class of the reference it is, and which of its tensors is which
// parameter.
#pragma once

#include "model/folder.hpp"
#include "plugin/compose.hpp"

#include <memory>

namespace hekla::app {

// A parameter, or a buffer that the files keep.
struct SavedTensor {
    std::string name;                          // as the reference names it in a file of this class
    const model::TensorView* stored = nullptr; // of the folder's weights
};

struct StoredModel {
    model::ModelFolder folder;
    std::unique_ptr<plugin::Composition> composition;
    const plugin::ReferenceClass* reference = nullptr;
    std::vector<SavedTensor> tensors;
    std::vector<std::string> ignored; // tensors of the files that are no part of the model, and known to be none
};

// `path`: a model's folder, a checkpoint, or a run (its newest complete checkpoint where it has not been finished).
// The class is the one asked for; else the one of config.json, unless it fits and another of the same architecture
// leaves fewer tensors over (files that were made for more heads than config.json says): then the log says so; else,
// where config.json names none, the one that fits best. Errors: those of the folder; tensors missing, left over or
// misshapen, each by its name; no class known.
Result<StoredModel> open_stored_model(const plugin::Registry& registry, const std::filesystem::path& path,
                                      const std::string& asked_class, const Log& log);

} // namespace hekla::app
