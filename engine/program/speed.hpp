// Estimated times of dispatches, for splitting work and for plans. No result depends on them.
#pragma once

#include "program/lowering/limits.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::program {

// The approximate speed of a device.
struct Speed {
    double flops = 0; // float32 operations per second
    double bytes = 0; // memory bytes per second
};
Speed speed_of(const Limits& limits);
// Returns how long a submit may take if the caller has no limit: watchdogs of drivers end work after seconds, a display
// on the same device stutters if it waits longer than a frame. 0: any time, on a CPU.
double submit_seconds(bool cpu, bool display);
// Returns how much work one secondary command buffer holds if the caller has no preference: as much as one submit may
// take, since each costs the host time in every submit.
double segment_seconds(double budget);
// Returns the first slice of every segment: slices of these durations in order, together at most `longest`, or one.
std::vector<std::size_t> segments_of(std::span<const double> slices, double longest);
// Returns the time limited by computation or by memory, whichever is longer, but not less than `at_least`.
double seconds_of(double flops, double bytes, const Speed& speed, double at_least = 0);
// Returns the number of slices of a dispatch of `seconds` such that none takes longer than `budget` (0: 1 slice).
uint64_t parts_of(uint64_t groups, double seconds, double budget);

} // namespace hekla::program
