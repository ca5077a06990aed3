// The tables of tests/drivers/tables: what a driver's compiler reports about each kernel.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::test {

// Returns the first line of a table: the device, its driver and the shader compiler, with their versions. The numbers
// of two tables can be compared if it is the same.
std::string header_of(const nlohmann::json& report, std::string_view shader_compiler);

// Returns the lines of a report of `hekla doctor --kernels --json`, one per kernel: its numbers, name and constants. A
// number that nothing reports is "null".
std::string lines_of(const nlohmann::json& report);

// Compares two tables, each of header_of() and lines_of(). Returns one line per difference: the kernels, or where the
// headers are the same, numbers that differ by more than 3 percent.
std::vector<std::string> differences(std::string_view stored, std::string_view now);

// The registers that kernels spill: "SPILLS KERNEL CONSTANTS" after the header, by kernel and constants.
using Spills = std::map<std::string, double>;
// The name and constants of a kernel of a report, the key of Spills.
std::string key_of(const nlohmann::json& kernel);
// Returns nothing if the header is another one: the numbers of another version are not comparable.
Spills read_spills(std::string_view text, std::string_view header);
std::string text_of(const Spills& spills, std::string_view header);

// Adds to a report what Mesa's compiler for Mali prints with BIFROST_MESA_DEBUG=shaderdb: a line for each kernel that
// lowering asked about, then one for each other kernel, in the report's order. The size of the code tells which is
// which. Returns whether every kernel has a line.
bool add_mali_numbers(nlohmann::json& report, std::string_view printed);

} // namespace hekla::test
