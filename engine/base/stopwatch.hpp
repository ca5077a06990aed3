// Measures elapsed time.
#pragma once

#include <chrono>

namespace hekla {

// Returns the seconds from `begin` to `end`.
inline double seconds_between(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
}

// Returns the seconds from `begin` to now.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
    return seconds_between(begin, std::chrono::steady_clock::now());
}

} // namespace hekla
