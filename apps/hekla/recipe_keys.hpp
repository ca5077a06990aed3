// The keys of a recipe, for shell completions.
#pragma once

#include <string>
#include <vector>

namespace hekla::app {

// "train.max_steps", sorted.
std::vector<std::string> recipe_keys();

} // namespace hekla::app
