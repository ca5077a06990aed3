// The reference of recipe keys, for docs/recipes.md and `hekla recipe keys`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hekla::train {

// Returns one heading per section with a table of its keys.
std::string recipe_markdown();
// Returns an object per key: section, key, type, default (TOML), range, resume, meaning.
nlohmann::ordered_json recipe_json();
// Returns one line per key, in columns.
std::string recipe_text();

} // namespace hekla::train
