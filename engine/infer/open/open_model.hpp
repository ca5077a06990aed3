// Opens models: folders, and the files that `hekla export` wrote.
#pragma once

#include "base/log.hpp"
#include "infer/open/model.hpp"
#include "program/runtime_source.hpp"

#include <filesystem>

namespace hekla::plugin {
class Registry;
}

namespace hekla::infer {

// Opens a model without its weights: it has neither runtime nor store nor parameters. Errors as open_model().
Result<Model> describe_model(const plugin::Registry& registry, const std::filesystem::path& path,
                             const ModelOptions& options, const Log& log);
// Opens a model; without a device it is opened for the float64 interpreter. The device is asked for after the folder's
// files were read and checked. Errors name the folder, and each tensor that is missing, unused or of the wrong shape.
Result<Model> open_model(const plugin::Registry& registry, const program::RuntimeSource& device,
                         const std::filesystem::path& path, const ModelOptions& options, const Log& log);

// Reads an adapter for a slot of the model in a folder, and checks it against that model. Errors: those of the folders;
// an adapter that cannot be in a slot, or was trained with another model.
Result<SlotContent> read_slot_content(const plugin::Registry& registry, const std::filesystem::path& adapter,
                                      const std::filesystem::path& model, const Log& log);

} // namespace hekla::infer
