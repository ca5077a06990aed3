// The reader of all JSON that comes from outside the process: strict, bounded in depth, with exact errors. The
// exceptions of the JSON library end here.
#pragma once

#include "base/status.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hekla {

// Deepest nesting of arrays and objects that is accepted. Code that walks a parsed value may therefore recurse.
inline constexpr std::size_t kJsonDepthLimit = 64;

// Parses a whole document. Errors begin with `name` (a file's path) and give line and column; corrupt: a syntax error,
// text that is not UTF-8, a key that occurs twice in one object, nesting deeper than kJsonDepthLimit, anything after
// the document; out_of_memory.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& name);

// The same for a document on one line of a file: errors give the column alone.
Result<nlohmann::json> parse_json_line(std::string_view line, const std::string& name);

// The same for a document that must be an object.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& name);
// Keys in the order of the text.
Result<nlohmann::ordered_json> parse_ordered_json_object(std::string_view text, const std::string& name);

// Parses a text that may be damaged, such as a line of a log: null where parse_json() would fail.
nlohmann::json json_or_null(std::string_view text);
nlohmann::ordered_json ordered_json_or_null(std::string_view text);

// Returns a value as text, indented by two, ending in a newline. Error: invalid_argument for strings that are not
// UTF-8.
Result<std::string> dump_json(const nlohmann::json& value);

// The reason in a message of the JSON library, without its "[json.exception.parse_error.101] " and cut to some 200
// bytes: the library quotes what it read last, which may be of any length.
std::string json_reason(const std::exception& error);

} // namespace hekla
