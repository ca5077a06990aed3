// The mask of a run (prune.from_mask): where it comes from, and where it is kept. Without it no function does anything.
#pragma once

#include "model/checkpoint.hpp"
#include "train/update/weight_mask.hpp"

#include <nlohmann/json.hpp>

namespace hekla::train {

struct PreparedRun;
struct PruneSection;

// Returns the mask that the run began with, or that of its recipe; without masks where it has none. table: parameters.
Result<WeightMask> mask_of_run(const PreparedRun& run, std::span<const program::ParameterEntry> table);
// Writes it into the folder of a run or a model.
Status keep_mask(const WeightMask& mask, const std::filesystem::path& folder);

// Writes its hash into the state of a checkpoint.
void add_mask(const WeightMask& mask, nlohmann::json& state);
// Checks that a checkpoint is of a run with this mask. folder: of the run.
Status check_same_mask(const model::Checkpoint& checkpoint, const WeightMask& mask,
                       const std::filesystem::path& folder);

// Which weights a masked run begins with.
enum class MaskedStart {
    initial, // those of a run without a mask
    random,  // drawn once more
    trained, // of prune.weights_from
    rewound, // of its checkpoint of prune.rewind_step
};
MaskedStart masked_start(const PruneSection& section);

} // namespace hekla::train
