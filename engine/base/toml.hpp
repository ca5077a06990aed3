// Reads TOML that may be damaged or hostile.
#pragma once

#include "base/strict_table.hpp"

#include <string>
#include <string_view>
#include <toml++/toml.h>

namespace hekla {

// The deepest accepted nesting of keys, tables and arrays, because toml++ and visitors of its tables recurse once per
// level.
inline constexpr int kDeepestToml = 64;

// Refuses text with deeper nesting than kDeepestToml. The error contains `name`, line and column.
Status check_toml_depth(std::string_view text, const std::string& name);

// Parses TOML. Errors contain `name`, line and column: bytes that are not UTF-8, nesting deeper than kDeepestToml,
// syntax.
Result<toml::table> parse_toml(std::string_view text, const std::string& name);

// Returns the values of a table, and notes the place of each in `reading`: "FILE:LINE", or the source path of a node
// that was parsed from another text. Error: dates and times.
Result<nlohmann::json> toml_values(const toml::table& table, TableReading& reading);
// The same of a text.
Result<nlohmann::json> toml_values(std::string_view text, TableReading& reading);

} // namespace hekla
