#include "gpu/timer.hpp"

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

} // namespace hekla::gpu
