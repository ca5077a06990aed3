// The reference of recipe keys: docs/recipes.md and `hekla recipe keys` are made by these.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hekla::train {

// One heading per section with a table of its keys.
std::string recipe_markdown();
// An object per key: section, key, type, default (TOML), range, resume, meaning.
nlohmann::ordered_json recipe_json();
// One line per key, in columns.
std::string recipe_text();

} // namespace hekla::train
