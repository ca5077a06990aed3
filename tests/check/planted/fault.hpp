// The planted fault of this process.
#pragma once

#include <cstdlib>
#include <string_view>

// Returns whether HEKLA_FAULT names this fault.
inline bool fault(std::string_view name) {
    const char* given = std::getenv("HEKLA_FAULT");
    return given != nullptr && name == given;
}
