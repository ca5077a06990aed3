// The optimizers that [optimizer] of a recipe names, without a model.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

// The optimizer that updates what another one does not take.
inline constexpr const char* kRestOptimizer = "adamw";

// Whether the recipe has [optimizer]; otherwise train.optim alone counts.
bool names_optimizers(const Recipe& recipe);
// Returns the ids of all optimizers that the recipe names, each once; the first is that of parameters without a rule.
std::vector<std::string> optimizer_names(const Recipe& recipe);
// Returns pattern and optimizer of each rule; the first that matches counts.
std::vector<std::pair<std::string, std::string>> optimizer_rules(const Recipe& recipe);
// Returns the options that the recipe gives for an optimizer.
nlohmann::json optimizer_options(const Recipe& recipe, const std::string& name);

// Errors: two keys that choose the optimizer; options of an optimizer that is not used.
Status check_optimizer(const Recipe& recipe);

} // namespace hekla::train
