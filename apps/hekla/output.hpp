// How verbs show results: JSON, and text that goes to standard output or to a file.
#pragma once

#include "base/size_text.hpp"
#include "base/status.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hekla::app {

// One line. Bytes that are not UTF-8 (a part of a character) are replaced.
std::string json_line(const nlohmann::ordered_json& value);

// Writes the whole file or nothing; an empty path or "-" is standard output.
Status write_output(const std::string& path, std::string_view text);

// Writes what is buffered for standard output, and returns an error if that or anything before could not be written.
// An error is returned once.
Status flush_output();
// Whether something could not be written to standard output: a verb that prints as it goes may stop.
bool output_failed();

// Opens what the parent process closed of standard input, output and error, so that no file gets their numbers. Writing
// to a standard output that was closed fails.
void open_standard_streams();

} // namespace hekla::app
