// JSON from outside, read strictly: size and depth bounded, duplicate keys refused (readers differ in which one they
// keep).
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hekla::model {

inline constexpr int json_depth_limit = 64;

// Parses a whole document that must be an object. `where` begins every message (a file's path). Errors: corrupt.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& where);

// The text of a file of at most `largest` bytes; the size is asked before anything is read.
Result<std::string> read_bounded_file(const std::filesystem::path& path, uint64_t largest);

// JSON text of a value, indented by two, keys sorted, ending in a newline. Fails on text that is not UTF-8.
Result<std::string> dump_json(const nlohmann::json& value);

// True for a name that means a file in the folder itself and nothing else: no separators, no "." or "..", no control
// characters, at most 255 bytes.
bool is_plain_file_name(std::string_view name);

} // namespace hekla::model
