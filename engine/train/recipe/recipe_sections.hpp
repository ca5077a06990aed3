// The sections and keys that recipes can have, as text: for the reference and completions.
#pragma once

#include "train/recipe/recipe_key.hpp"

#include <string>
#include <vector>

namespace hekla::train {

// A row of the table as text.
struct RecipeKey {
    std::string section, name; // section: "schedules.NAME" for named ones. name: empty for every other key
    std::string type;          // "integer"
    std::string fallback;      // the default as TOML; empty: none
    std::string range;         // KeyRule::text()
    std::string meaning;
    Resume resume = Resume::free;
};
struct RecipeSection {
    std::string name, meaning;
    std::string shorthand; // of a named section: the key that `NAME = VALUE` sets
    std::vector<RecipeKey> keys;
};
// All sections and keys, in the order in which they are written.
std::vector<RecipeSection> recipe_sections();

// "train.max_steps", ...: the keys that can be completed on a command line. A key of a named section has "NAME" for the
// name ("schedules.NAME.kind").
std::vector<std::string> recipe_key_names();

} // namespace hekla::train
