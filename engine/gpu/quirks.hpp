// Driver bugs: capabilities that are reported but must not be used. The table is quirks.json, embedded at build time.
#pragma once

#include "base/log.hpp"
#include "gpu/capabilities.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::gpu {

// A row applies if all given conditions match.
struct Quirk {
    std::optional<uint32_t> vendor_id;
    std::optional<uint32_t> device_id;
    std::optional<uint32_t> driver_id;          // VkDriverId
    std::vector<std::string> device_contains;   // one of them is in the device's name, ignoring case; empty: any name
    std::optional<std::string> driver_contains; // in driver name or info, ignoring case
    std::optional<std::string> version_from;    // driver's version "25.0.7" taken from driver_info; inclusive
    std::optional<std::string> version_below;   // exclusive
    std::vector<std::string> takes;             // names of capabilities
    std::string reason;
    std::string link;
};

// Parses the file's text. Unknown keys, unknown capability names and rows without reason or link are errors.
Result<std::vector<Quirk>> parse_quirks(std::string_view json);
Result<std::vector<Quirk>> built_in_quirks();

std::string lowered(std::string_view text); // changes only A to Z
bool quirk_applies(const Quirk& quirk, const Capabilities& capabilities);
// Returns the first "a.b.c" in a driver's version string; empty if there is none.
std::vector<uint32_t> version_in_text(std::string_view text);

// Clears bits, with a line of `taken_away` for each.
Status apply_quirks(Capabilities& capabilities, const std::vector<Quirk>& quirks);

} // namespace hekla::gpu
