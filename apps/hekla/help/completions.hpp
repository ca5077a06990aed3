// Completion scripts for shells. They are self-contained: completing does not run the program.
#pragma once

#include "help/command_tree.hpp"

#include <string>
#include <vector>

namespace hekla::app {

// recipe_keys: "train.max_steps", offered with a "=".
std::string bash_completion(const CommandInfo& program, const std::vector<std::string>& recipe_keys);
std::string zsh_completion(const CommandInfo& program, const std::vector<std::string>& recipe_keys);
std::string fish_completion(const CommandInfo& program, const std::vector<std::string>& recipe_keys);

} // namespace hekla::app
