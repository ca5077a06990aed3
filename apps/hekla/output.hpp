// Output of the verbs: JSON, and text for standard output or a file.
#pragma once

#include "base/size_text.hpp"
#include "base/status.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hekla::app {

// Formats JSON as one line. Bytes that are not UTF-8 (part of a character) are replaced.
std::string json_line(const nlohmann::ordered_json& value);

// Writes the whole file or nothing; an empty path or "-" is standard output.
Status write_output(const std::string& path, std::string_view text);

// Flushes standard output, and returns an error if that or an earlier write failed. An error is returned once.
Status flush_output();
// Returns whether a write to standard output failed; a verb that prints as it runs may then stop.
bool output_failed();

// Opens the standard streams that the parent process closed, so that no file gets their numbers. Writing to a standard
// output that was closed fails.
void open_standard_streams();

} // namespace hekla::app
