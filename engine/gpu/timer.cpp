#include "gpu/timer.hpp"

#include "gpu/result.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace hekla::gpu {

Result<std::unique_ptr<Timer>> Timer::create(std::shared_ptr<Device> device, uint32_t slots) {
    HK_TRY(device->alive());
    if (!device->capabilities().timestamps)
        return unsupported(fmt::format("{} has no timestamps", device->capabilities().device_name));
    if (slots == 0) return invalid_argument("a timer of 0 slots");
    auto timer = std::unique_ptr<Timer>(new Timer);
    timer->device_ = std::move(device);
    timer->slots_ = slots;
    VkQueryPoolCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    create.queryType = VK_QUERY_TYPE_TIMESTAMP;
    create.queryCount = slots;
    const Device& d = *timer->device_;
    HK_TRY(d.check(d.functions().vkCreateQueryPool(d.handle(), &create, d.callbacks(), &timer->pool_),
                   "vkCreateQueryPool"));
    return timer;
}

Timer::~Timer() {
    if (pool_) device_->functions().vkDestroyQueryPool(device_->handle(), pool_, device_->callbacks());
}

Result<std::vector<double>> Timer::read(uint32_t first, uint32_t count) const {
    HK_TRY(device_->alive());
    if (count == 0 || first > slots_ || count > slots_ - first)
        return invalid_argument(fmt::format("timer slots [{}, +{}) of {}", first, count, slots_));
    std::vector<uint64_t> ticks(count);
    const VkResult result = device_->functions().vkGetQueryPoolResults(device_->handle(), pool_, first, count,
                                                                       ticks.size() * sizeof(uint64_t), ticks.data(),
                                                                       sizeof(uint64_t), VK_QUERY_RESULT_64_BIT);
    HK_TRY(device_->check(result, "vkGetQueryPoolResults"));
    if (result == VK_NOT_READY) return failed_precondition("timestamps were read before their work had finished");
    const Capabilities& c = device_->capabilities();
    const uint64_t mask = c.timestamp_bits >= 64 ? UINT64_MAX : (uint64_t{1} << c.timestamp_bits) - 1;
    std::vector<double> nanoseconds(count);
    uint64_t since_first = 0;
    for (uint32_t i = 1; i < count; ++i) {
        since_first += (ticks[i] - ticks[i - 1]) & mask;
        nanoseconds[i] = static_cast<double>(since_first) * c.timestamp_nanoseconds;
    }
    return nanoseconds;
}

Result<Measurement> measure(Queue& queue, const CommandBuffer& secondary, uint32_t warm_up, uint32_t runs) {
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
