// The share of the training data that a run holds out for validation. It depends on the keys of [data] alone, and a run
// keeps what it began with.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace hekla::train {

// The key of trainer_state.json with the share. Checkpoints without it are of versions that held nothing out with
// train.eval_steps = 0.
inline constexpr const char* kHeldOut = "held_out";

// Returns the share that a run of this recipe holds out when it begins: 0 with separate validation data.
double held_out_by(const DataSection& data);

// Returns whether the row of a table with this key (TaskTable::row_key) is held out: equal rows are, or are not.
bool is_held_out(uint64_t row_key, double share);

// Returns the share that the run of a checkpoint holds out. before: the checkpoint's recipe; state: its
// trainer_state.json; now: the recipe that continues. failed_precondition: `now` moves examples between training and
// validation data. An evaluation (trains: false) may name other validation data: nothing is trained on then.
Result<double> held_out_of(const Recipe& before, const nlohmann::json& state, const Recipe& now,
                           const std::string& checkpoint, bool trains);

} // namespace hekla::train
