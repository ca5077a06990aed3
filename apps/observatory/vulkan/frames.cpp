#include "vulkan/frames.hpp"

#include "failure.hpp"

#include <cstring>

namespace observatory {

Frames::Frames(Device& device) : device_(device) {
    device.make_commands(pool_, commands_);
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo semaphore{};
    semaphore.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    semaphore.pNext = &type;
    require(vkCreateSemaphore(device.handle(), &semaphore, nullptr, &timeline_), "vkCreateSemaphore");
    if (device.nanoseconds_per_tick() == 0) return;
    VkQueryPoolCreateInfo times{};
    times.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    times.queryType = VK_QUERY_TYPE_TIMESTAMP;
    times.queryCount = 2 * kCount;
    require(vkCreateQueryPool(device.handle(), &times, nullptr, &times_), "vkCreateQueryPool");
}

Frames::~Frames() {
    device_.wait_idle();
    vkDestroyQueryPool(device_.handle(), times_, nullptr);
    vkDestroySemaphore(device_.handle(), timeline_, nullptr);
    vkDestroyCommandPool(device_.handle(), pool_, nullptr);
}

void Frames::wait(uint64_t number) const {
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &timeline_;
    info.pValues = &number;
    require(vkWaitSemaphores(device_.handle(), &info, UINT64_MAX), "vkWaitSemaphores");
}

void Frames::wait_all() { wait(number_); }

hk_timeline Frames::lease() const {
    hk_timeline point{0, number_};
    static_assert(sizeof point.semaphore == sizeof timeline_);
    std::memcpy(&point.semaphore, &timeline_, sizeof timeline_);
    return point;
}

VkCommandBuffer Frames::begin() {
    ++number_;
    if (number_ > kCount) {
        wait(number_ - kCount);
        std::array<uint64_t, 2> ticks{};
        if (times_ != VK_NULL_HANDLE &&
            vkGetQueryPoolResults(device_.handle(), times_, 2 * slot(), 2, sizeof ticks, ticks.data(), sizeof ticks[0],
                                  VK_QUERY_RESULT_64_BIT) == VK_SUCCESS)
            drawing_ = static_cast<double>(ticks[1] - ticks[0]) * device_.nanoseconds_per_tick() * 1e-3;
    }
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    require(vkBeginCommandBuffer(commands_[slot()], &begin), "vkBeginCommandBuffer");
    return commands_[slot()];
}

void Frames::begin_drawing() const {
    if (times_ == VK_NULL_HANDLE) return;
    vkCmdResetQueryPool(commands_[slot()], times_, 2 * slot(), 2);
    vkCmdWriteTimestamp(commands_[slot()], VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, times_, 2 * slot());
}

void Frames::end_drawing() const {
    if (times_ == VK_NULL_HANDLE) return;
    vkCmdWriteTimestamp(commands_[slot()], VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, times_, 2 * slot() + 1);
}

void Frames::submit(const Target::Image& image) {
    require(vkEndCommandBuffer(commands_[slot()]), "vkEndCommandBuffer");
    const std::array<VkSemaphore, 2> signals{timeline_, image.drawn};
    const std::array<uint64_t, 2> values{number_, 0};
    const uint32_t signal_count = image.drawn != VK_NULL_HANDLE ? 2 : 1;
    const uint64_t ready_value = 0;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
    const uint32_t wait_count = image.ready != VK_NULL_HANDLE ? 1 : 0;
    VkTimelineSemaphoreSubmitInfo timeline{};
    timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    timeline.waitSemaphoreValueCount = wait_count;
    timeline.pWaitSemaphoreValues = &ready_value;
    timeline.signalSemaphoreValueCount = signal_count;
    timeline.pSignalSemaphoreValues = values.data();
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.pNext = &timeline;
    submit.waitSemaphoreCount = wait_count;
    submit.pWaitSemaphores = &image.ready;
    submit.pWaitDstStageMask = &stage;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_[slot()];
    submit.signalSemaphoreCount = signal_count;
    submit.pSignalSemaphores = signals.data();
    const std::lock_guard guard(device_.queue_mutex());
    require(vkQueueSubmit(device_.queue(), 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
}

} // namespace observatory
