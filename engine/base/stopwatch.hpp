// Measures elapsed time.
#pragma once

#include <chrono>

namespace hekla {

// Returns the seconds from `begin` to now.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace hekla
