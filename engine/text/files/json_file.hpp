// Files of JSON in a tokenizer's folder, and their members with the kinds that are expected.
#pragma once

#include "base/file_place.hpp"
#include "base/json.hpp"
#include "base/status.hpp"

#include <string>
#include <string_view>

namespace hekla::text {

using Json = nlohmann::json;

// Reads a file that holds a JSON object.
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
