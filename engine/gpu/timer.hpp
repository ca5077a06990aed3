// Device time: timestamps if supported, otherwise the wall clock.
#pragma once

#include "gpu/submit.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace hekla::gpu {

// A pool of timestamp slots. Needs Capabilities::timestamps.
class Timer {
public:
    static Result<std::unique_ptr<Timer>> create(std::shared_ptr<Device> device, uint32_t slots);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    uint32_t slots() const { return slots_; }
    // Returns nanoseconds of slots [first, first + count) since slot `first`, which never decrease; written by finished
    // work. Correct if the counter wraps between two neighbors.
    Result<std::vector<double>> read(uint32_t first, uint32_t count) const;
    VkQueryPool handle() const { return pool_; }

private:
    Timer() = default;
    std::shared_ptr<Device> device_;
    VkQueryPool pool_ = VK_NULL_HANDLE;
    uint32_t slots_ = 0;
};

struct Measurement {
    std::vector<double> seconds; // one per run, in order
    double median_seconds = 0;
    bool from_timestamps = false; // false: wall clock, including submit and wait
};

// Runs a finished secondary `warm_up + runs` times, each waited for, and times the last `runs`.
Result<Measurement> measure(Queue& queue, const CommandBuffer& secondary, uint32_t warm_up, uint32_t runs);

} // namespace hekla::gpu
