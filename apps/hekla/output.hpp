// How verbs show things: sizes in words, JSON, and text that goes to standard output or to a file.
#pragma once

#include "base/size_text.hpp"
#include "base/status.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hekla::app {

// One line. What is not UTF-8 (a part of a character) is replaced.
std::string json_line(const nlohmann::ordered_json& value);

// Writes the whole file or none of it; an empty path is standard output.
Status write_output(const std::string& path, std::string_view text);

} // namespace hekla::app
