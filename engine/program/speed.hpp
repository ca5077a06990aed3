// How long dispatches take: estimates, for splitting work and for plans. No result depends on them.
#pragma once

#include "program/lowering/limits.hpp"

#include <cstdint>

namespace hekla::program {

// The approximate speed of a device.
struct Speed {
    double flops = 0; // float32 operations a second
    double bytes = 0; // of memory a second
};
Speed speed_of(const Limits& limits);
// By what a dispatch computes or by what it moves, whichever takes longer.
double seconds_of(double flops, double bytes, const Speed& speed);
// Into how many parts a dispatch of `seconds` is split so that none takes longer than `budget` (0: 1 part).
uint64_t parts_of(uint64_t groups, double seconds, double budget);

} // namespace hekla::program
