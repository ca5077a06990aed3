// Checks whether a run can continue from a checkpoint that was made with another recipe.
#pragma once

#include "base/log.hpp"
#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <string>

namespace hekla::train {

// Compares the recipe of a checkpoint with that of the run that continues from it, by the `resume` column of
// recipe_keys.inc. failed_precondition: a key changed that must not change. Other changes that affect the result are
// reported in one warning. trains: false for an evaluation.
Status check_resume(const Recipe& before, const Recipe& now, const std::string& checkpoint, bool trains,
                    const Log& log);

} // namespace hekla::train
