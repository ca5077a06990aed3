// JSON from outside: read with every defect turned into one Status that names the file. The exceptions of the JSON
// library end here.
#pragma once

#include "base/file_place.hpp"
#include "base/status.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hekla::text {

using Json = nlohmann::json;

// Parses `content`; refuses a key that occurs twice in one object. `name` is what messages call the file.
Result<Json> parse_json(std::string_view content, const std::string& name);

// The file as a JSON object.
Result<Json> read_json_object(const FilePlace& path);

// A text as a JSON string, quotes included. The text must be valid UTF-8 (every token string is).
std::string json_quote(std::string_view text);

// Member `key` of `object`: absent and null give `otherwise`; another kind of value is an error that names the key.
Result<bool> json_bool(const Json& object, const char* key, bool otherwise, const std::string& name);
Result<std::string> json_string(const Json& object, const char* key, const std::string& otherwise,
                                const std::string& name);

// A token id: an integer in [0, 2^31).
Result<int32_t> json_token_id(const Json& value, const std::string& what, const std::string& name);

} // namespace hekla::text
