// The file of a recipe that `hekla train --model` writes, and trains by.
#pragma once

#include "fine_tuning/first_recipe.hpp"

namespace hekla::app {

// What became of the file.
enum class RecipeFile { written, kept };

// Writes the recipe. A file that the same command wrote is kept as it is, so that the command resumes. Errors: another
// file of that name, a name that does not end in .toml, a folder that cannot be written; those of first_recipe().
// No new file is left after an error.
Result<RecipeFile> provide_recipe(const Globals& globals, const FirstRecipeOptions& options,
                                  const std::function<void(const std::string&)>& say);

} // namespace hekla::app
