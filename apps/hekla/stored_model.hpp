// A model folder matched with the plugins: its class in the reference implementation, and the parameter of each tensor.
#pragma once

#include "model/folder.hpp"
#include "plugin/composition/compose.hpp"

#include <memory>

namespace hekla::app {

// A parameter, or a buffer that is stored.
struct SavedTensor {
    std::string name;                          // the reference's name in a file of this class
    const model::TensorView* stored = nullptr; // in the folder's weights, or `stack`
    std::shared_ptr<const model::TensorView> stack = nullptr;
};

struct StoredModel {
    model::ModelFolder folder;
    std::unique_ptr<plugin::Composition> composition;
    const plugin::ReferenceClass* reference = nullptr;
    std::vector<SavedTensor> tensors;
    std::vector<std::string> ignored; // stored tensors that are known not to be part of the model
};

// `path`: a model folder, a checkpoint, or a run (its newest complete checkpoint if it is not finished). The class is
// the requested one; else the one of config.json, or another of the same architecture if that leaves fewer tensors
// unmatched (files with more heads than config.json names; a line is logged); without a class in config.json the one
// that fits best. Errors: those of the folder; missing, unknown or misshapen tensors by name; no known class.
Result<StoredModel> open_stored_model(const plugin::Registry& registry, const std::filesystem::path& path,
                                      const std::string& asked_class, const Log& log);

} // namespace hekla::app
