// A recipe for fine-tuning a model on data, chosen by looking at both and at this device.
#pragma once

#include "command.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hekla::app {

struct FirstRecipeOptions {
    std::string model;
    std::vector<std::string> data;
    std::string task;                   // "": what the data is for
    std::string file;                   // that is written; it ends in ".toml"
    std::vector<std::string> overrides; // SECTION.KEY=VALUE
    int64_t ranks = 1;                  // that divide the micro-batches of a step
};

// Returns the command that writes this recipe, as it is in the first line of the file.
std::string command_of(const FirstRecipeOptions& options);
// Returns the default name of the file: out/MODEL-DATA.toml.
std::string default_recipe_file(const FirstRecipeOptions& options);

// Returns the text of the recipe. say: called with one line about what was found or chosen. The file is not written.
Result<std::string> first_recipe(const Globals& globals, const FirstRecipeOptions& options,
                                 const std::function<void(const std::string&)>& say);

} // namespace hekla::app
