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

// A row applies where everything that it names agrees; what it does not name agrees with all.
struct Quirk {
    std::optional<uint32_t> vendor_id;
    std::optional<uint32_t> device_id;
    std::optional<uint32_t> driver_id;          // VkDriverId
    std::optional<std::string> device_contains; // in the device's name, any case
    std::optional<std::string> driver_contains; // in driver name or info, any case
    std::optional<std::string> version_from;    // driver's version "25.0.7" taken from driver_info; inclusive
    std::optional<std::string> version_below;   // exclusive
    std::vector<std::string> takes;             // names of capabilities
    std::string reason;
    std::string link;
};

// The file's text. Unknown keys, unknown capability names and rows without reason or link are errors.
Result<std::vector<Quirk>> parse_quirks(std::string_view json);
Result<std::vector<Quirk>> built_in_quirks();

std::string lowered(std::string_view text); // A to Z alone
bool quirk_applies(const Quirk& quirk, const Capabilities& capabilities);
// The first "a.b.c" in a driver's own text; empty where there is none.
std::vector<uint32_t> version_in_text(std::string_view text);

// Takes bits away, a line of `taken_away` each.
Status apply_quirks(Capabilities& capabilities, const std::vector<Quirk>& quirks);

} // namespace hekla::gpu
