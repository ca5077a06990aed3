// Time spent on the device: timestamps where it has them, the wall clock where not.
#pragma once

#include "gpu/submit.hpp"
#include "gpu/timer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace hekla::gpu {

struct Measurement {
    std::vector<double> seconds; // one a run, in order
    double median_seconds = 0;
    bool from_timestamps = false; // false: wall clock, submit and wait included
};

// Runs a finished secondary `warm_up + runs` times, each waited for, and times the last `runs`.
inline Result<Measurement> measure(Queue& queue, const CommandBuffer& secondary, uint32_t warm_up, uint32_t runs) {
    const std::shared_ptr<Device>& device = queue.device();
    if (runs == 0) return invalid_argument("measure: 0 runs");
    Measurement measured;
    measured.from_timestamps = device->capabilities().timestamps;
    std::unique_ptr<Timer> timer;
    std::shared_ptr<CommandPool> pool;
    CommandBuffer before;
    CommandBuffer after;
    std::vector<Segment> segments{{&secondary, 0}};
    if (measured.from_timestamps) {
        HK_ASSIGN(timer, Timer::create(device, 2));
        HK_ASSIGN(pool, CommandPool::create(device));
        HK_ASSIGN(before, pool->allocate(Level::secondary));
        HK_ASSIGN(after, pool->allocate(Level::secondary));
        HK_TRY(before.begin());
        before.reset_timer(*timer);
        before.timestamp(*timer, 0);
        HK_TRY(before.end());
        HK_TRY(after.begin());
        after.timestamp(*timer, 1);
        HK_TRY(after.end());
        segments = {{&before, 0}, {&secondary, 0}, {&after, 0}};
    }
    for (uint32_t run = 0; run < warm_up + runs; ++run) {
        const auto started = std::chrono::steady_clock::now();
        HK_ASSIGN(const uint64_t value, queue.submit(segments));
        HK_TRY(queue.wait(value));
        double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
        if (timer) {
            HK_ASSIGN(const std::vector<double> at, timer->read(0, 2));
            seconds = (at[1] - at[0]) * 1e-9;
        }
        if (run >= warm_up) measured.seconds.push_back(seconds);
    }
    std::vector<double> sorted = measured.seconds;
    std::ranges::sort(sorted);
    const std::size_t middle = sorted.size() / 2;
    measured.median_seconds = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    return measured;
}

} // namespace hekla::gpu
