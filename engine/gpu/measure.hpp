// Time spent on the device: timestamps where it has them, the wall clock where not.
#pragma once

#include "gpu/submit.hpp"

#include <cstdint>
#include <vector>

namespace hekla::gpu {

struct Measurement {
    std::vector<double> seconds; // one a run, in order
    double median_seconds = 0;
    bool from_timestamps = false; // false: wall clock, submit and wait included
};

// Runs a finished secondary `warm_up + runs` times, each waited for, and times the last `runs`.
Result<Measurement> measure(Queue& queue, const CommandBuffer& secondary, uint32_t warm_up, uint32_t runs);

} // namespace hekla::gpu
