// The tensors of a training's state besides the model's weights, as one list: checkpoints are written from it and
// loaded by it.
#pragma once

#include "base/resource_array.hpp"
#include "model/checkpoint.hpp"
#include "model/weights.hpp"
#include "program/parameter_store.hpp"

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hekla::train {

struct StateTensor {
    model::TensorSource source = {}; // reads it when it is written
    std::function<Status(const model::TensorView& stored, const std::filesystem::path& folder)> load = {};
    bool optional = false;    // a checkpoint without it leaves it as it is
    std::string missing = {}; // why a checkpoint without it cannot be loaded; empty: Weights::get() tells
};

// A file of a checkpoint, or the several files of a sharded one.
struct StateFile {
    std::string name = {}; // "optimizer"
    std::vector<StateTensor> tensors = {};
    std::function<Status()> begin_without = {}; // for a checkpoint that does not have it; empty: an error
};

// The state of a parameter, PREFIX + its name, in float32. It must be finite, and is in every checkpoint.
StateTensor float_state(const std::string& prefix, const program::ParameterEntry& entry,
                        std::function<Result<ResourceArray<float>>()> read,
                        std::function<Status(std::span<const float>)> write);
// Bytes, as many in every checkpoint.
StateTensor bytes_state(std::string name, std::size_t bytes, std::function<Result<std::vector<std::byte>>()> read,
                        std::function<Status(std::span<const std::byte>)> write);

// A file without tensors is not written, and not looked for.
Status write_state(model::CheckpointWriter& writer, const StateFile& file);
// Errors: failed_precondition for other shapes; corrupt for a tensor that is not finite.
Status load_state(const std::filesystem::path& folder, const StateFile& file);

// Returns the numbers of a stored tensor that belongs to a parameter. Errors as load_state().
Result<ResourceArray<float>> values_of(const model::TensorView& stored, const std::filesystem::path& folder,
                                       const program::ParameterEntry& entry);

} // namespace hekla::train
