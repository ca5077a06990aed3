// Formats sizes in bytes.
#pragma once

#include <cstdint>
#include <string>

namespace hekla {

std::string size_text(uint64_t bytes); // "512 B", "3.2 MiB"

} // namespace hekla
