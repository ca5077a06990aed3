// Whether tests use the validation layer of Vulkan. HEKLA_TEST_VALIDATION=off: without it, where it is not installed.
#pragma once

#include <cstdlib>
#include <string_view>

namespace hekla::test {

inline bool is_validation_off() {
    const char* given = std::getenv("HEKLA_TEST_VALIDATION");
    return given != nullptr && std::string_view(given) == "off";
}

} // namespace hekla::test
