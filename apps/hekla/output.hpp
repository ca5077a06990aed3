// Output of the verbs: JSON, and text for standard output or a file.
#pragma once

#include "base/number_text.hpp"
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

// The same for a text with parts of files that others wrote: standard output gets printable() of it.
Status write_foreign_output(const std::string& path, std::string_view text);
void print_foreign(std::string_view text); // to standard output

// Fails where write_file_atomically() would: for a verb that works long before it writes. Errors: no folder, a folder
// in the file's place, no permission.
Status check_output_file(const std::string& path);
// The same for a folder, which need not be there.
Status check_output_folder(const std::string& path);

// Flushes standard output, and returns an error if that or an earlier write failed. An error is returned once. A pipe
// whose reader ended, as in `hekla --help | head`, is not an error.
Status flush_output();
bool output_closed(); // whether standard output is such a pipe
// Returns whether a write to standard output failed; a verb that prints as it runs may then stop.
bool output_failed();

} // namespace hekla::app
