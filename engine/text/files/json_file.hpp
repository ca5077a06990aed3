// Reads JSON files of a tokenizer's folder, and their members with the expected types.
#pragma once

#include "base/file_place.hpp"
#include "base/json.hpp"
#include "base/status.hpp"

#include <string>
#include <string_view>

namespace hekla::text {

using Json = nlohmann::json;

// Reads a file that contains a JSON object.
Result<Json> read_json_object(const FilePlace& path);

// Returns a text as a JSON string, including quotes. The text must be valid UTF-8 (every token string is).
std::string json_quote(std::string_view text);

// Return member `key` of `object`: `otherwise` if absent or null; another type is an error that contains the key.
Result<bool> json_bool(const Json& object, const char* key, bool otherwise, const std::string& name);
Result<std::string> json_string(const Json& object, const char* key, const std::string& otherwise,
                                const std::string& name);

// Returns a token id: an integer in [0, 2^31).
Result<int32_t> json_token_id(const Json& value, const std::string& what, const std::string& name);

} // namespace hekla::text
