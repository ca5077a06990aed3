// The reader of all JSON from outside the process: strict, bounded in depth, with exact errors. Converts the exceptions
// of the JSON library.
#pragma once

#include "base/status.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hekla {

// Deepest accepted nesting of arrays and objects, so that code may walk parsed values recursively.
inline constexpr std::size_t kJsonDepthLimit = 64;

// Parses a whole document. Errors begin with `name` (a file's path) and contain line and column; corrupt: a syntax
// error, text that is not UTF-8, a duplicate key in one object, nesting deeper than kJsonDepthLimit, anything after the
// document; out_of_memory.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& name);

// Parses a document on one line of a file; errors contain only the column.
Result<nlohmann::json> parse_json_line(std::string_view line, const std::string& name);

// Parses a document that must be an object.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& name);
// Parses an object and keeps the order of its keys.
Result<nlohmann::ordered_json> parse_ordered_json_object(std::string_view text, const std::string& name);

// Parses a text that may be damaged, such as a line of a log: null where parse_json() would fail.
nlohmann::json json_or_null(std::string_view text);
nlohmann::ordered_json ordered_json_or_null(std::string_view text);

// Returns a value as text, indented by two, ending in a newline. Error: invalid_argument for strings that are not
// UTF-8.
Result<std::string> dump_json(const nlohmann::json& value);

// Returns the reason from a message of the JSON library, without its "[json.exception.parse_error.101] " and shortened
// to about 200 bytes, because the library quotes the last input, which can have any length.
std::string json_reason(const std::exception& error);

} // namespace hekla
