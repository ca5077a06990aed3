// A recipe as a TOML file: reads it, with overrides from a command line, and writes it.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"
#include "train/recipe/recipe_key.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::train {

// Reads a recipe, or that of a run's folder, and applies overrides ("train.max_steps=100"; a value that is not TOML is
// a string). A folder may have been moved: output.dir is where it is now, unless an override sets it. Errors name file,
// line and key, what was expected, and the nearest known key. Paths in [data] are relative to the current folder.
Result<Recipe> read_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
// Does the same for text; messages use `name` as the name of the file.
Result<Recipe> parse_recipe(std::string_view text, const std::string& name,
                            const std::vector<std::string>& overrides = {});
// Reads the result of write_recipe(), for example a checkpoint's recipe. Rules that concern several keys are not
// checked again: a run that was not started from a file need not follow them.
Result<Recipe> parse_resolved_recipe(std::string_view text, const std::string& name);

// Returns the resolved recipe as TOML, every key written out: reading it gives the same recipe.
std::string write_recipe(const Recipe& recipe);

// A key of a resolved recipe and its value as TOML.
struct RecipeValue {
    std::string section; // as in the header of the file
    std::string key;     // without quotes
    std::string line;    // "key = value", as it is written
    std::string value;
    Resume resume = Resume::free;
};
std::vector<RecipeValue> recipe_values(const Recipe& recipe);

} // namespace hekla::train
