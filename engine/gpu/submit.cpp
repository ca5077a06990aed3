#include "gpu/submit.hpp"

#include "base/within_memory.hpp"
#include "gpu/result.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace hekla::gpu {

std::size_t segments_within(std::span<const Segment> segments, std::size_t first, double budget_seconds) {
    if (first >= segments.size()) return 0;
    if (budget_seconds <= 0) return segments.size() - first;
    double sum = segments[first].seconds;
    std::size_t count = 1;
    while (first + count < segments.size() && sum + segments[first + count].seconds <= budget_seconds) {
        sum += segments[first + count].seconds;
        ++count;
    }
    return count;
}

Result<std::shared_ptr<Queue>> Queue::create(std::shared_ptr<Device> device) {
    auto queue = std::shared_ptr<Queue>(new Queue);
    HK_TRY(queue->open(std::move(device)));
    return queue;
}

Status Queue::open(std::shared_ptr<Device> device) {
    device_ = std::move(device);
    HK_TRY(device_->alive());
    pending_ = decltype(pending_)(device_->host_memory());
    HK_ASSIGN(pool_, CommandPool::create(device_));
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    create.pNext = &type;
    const Device& d = *device_;
    return d.check(d.functions().vkCreateSemaphore(d.handle(), &create, d.callbacks(), &timeline_),
                   "vkCreateSemaphore");
}

Queue::~Queue() {
    // Pending work must end before its command buffers and buffers are freed; a lost device ends it immediately.
    if (timeline_ && (last_ > 0 || device_->lost())) {
        const Status done = device_->lost() ? Status() : wait(last_);
        if (device_->lost() || !done.ok()) settle();
        device_->functions().vkDestroySemaphore(device_->handle(), timeline_, device_->callbacks());
    } else if (timeline_) {
        device_->functions().vkDestroySemaphore(device_->handle(), timeline_, device_->callbacks());
    }
    pending_.clear();
}

// After an error: Vulkan guarantees that this returns on a lost device, and that nothing runs afterwards.
void Queue::settle() const {
    device_->with_queue([&](VkQueue queue) { device_->functions().vkQueueWaitIdle(queue); });
}

// The layer's instrumentation of shaders (1.3.239) loses timeline signals of vkQueueSubmit2: each query of the
// semaphore's value takes 20 seconds and reports an error of the layer itself. Waiting for the whole queue does not.
bool Queue::poll_by_idling() const { return device_->validation() == Validation::gpu_assisted; }

Result<CommandBuffer> Queue::take_primary() {
    if (!pending_.empty() && !poll_by_idling()) {
        uint64_t done = reached_;
        if (pending_.front().value > done)
            HK_TRY(device_->check(device_->functions().vkGetSemaphoreCounterValue(device_->handle(), timeline_, &done),
                                  "vkGetSemaphoreCounterValue"));
        if (pending_.front().value <= done) {
            CommandBuffer commands = std::move(pending_.front().commands);
            pending_.pop_front();
            return commands;
        }
    }
    return pool_->allocate(Level::primary);
}

void Queue::end_work(CommandBuffer& commands) {
    commands.barrier(VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT,
                     VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT,
                     VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT);
}

Status Queue::submit_one(std::span<const Segment> segments, bool is_first, bool is_last, const SubmitOptions& options) {
    HK_ASSIGN(CommandBuffer primary, take_primary());
    HK_TRY(primary.begin());
    if (is_first) begin_work(primary);
    for (const Segment& segment : segments) primary.execute(*segment.commands);
    if (is_last) end_work(primary);
    HK_TRY(primary.end());
    // Recorded as pending before it is submitted, so that an allocation failure submits nothing.
    pending_.push_back({std::move(primary), last_ + 1});
    Status sent = send_locked(pending_.back().commands, is_first ? options.waits : std::span<const TimelinePoint>(),
                              is_last ? options.signals : std::span<const TimelinePoint>());
    if (!sent.ok()) pending_.pop_back();
    return sent;
}

Status Queue::send_locked(const CommandBuffer& primary, std::span<const TimelinePoint> waits,
                          std::span<const TimelinePoint> signals) {
    const auto point = [](const TimelinePoint& p) {
        VkSemaphoreSubmitInfo info{};
        info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO;
        info.semaphore = p.semaphore;
        info.value = p.value;
        info.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
        return info;
    };
    std::vector<VkSemaphoreSubmitInfo> before, after;
    for (const TimelinePoint& wait : waits) before.push_back(point(wait));
    after.push_back(point({timeline_, last_ + 1}));
    for (const TimelinePoint& signal : signals) after.push_back(point(signal));
    VkCommandBufferSubmitInfo commands{};
    commands.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO;
    commands.commandBuffer = primary.handle();
    VkSubmitInfo2 submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
    submit.waitSemaphoreInfoCount = static_cast<uint32_t>(before.size());
    submit.pWaitSemaphoreInfos = before.data();
    submit.commandBufferInfoCount = 1;
    submit.pCommandBufferInfos = &commands;
    submit.signalSemaphoreInfoCount = static_cast<uint32_t>(after.size());
    submit.pSignalSemaphoreInfos = after.data();
    const VkResult result = device_->with_queue(
        [&](VkQueue queue) { return device_->functions().vkQueueSubmit2(queue, 1, &submit, VK_NULL_HANDLE); });
    HK_TRY(device_->check(result, "vkQueueSubmit2"));
    last_ += 1;
    submits_ += 1;
    return {};
}

Result<uint64_t> Queue::send(const CommandBuffer& primary, std::span<const TimelinePoint> waits,
                             std::span<const TimelinePoint> signals) {
    HK_TRY(device_->alive());
    const std::lock_guard guard(mutex_);
    HK_TRY(send_locked(primary, waits, signals));
    return last_;
}

Status Queue::check(std::span<const Segment> segments) {
    for (const Segment& segment : segments)
        if (!segment.commands || segment.commands->level() != Level::secondary)
            return invalid_argument("a segment is a finished secondary command buffer");
    return {};
}

Result<uint64_t> Queue::submit(std::span<const Segment> segments, const SubmitOptions& options) {
    HK_TRY(device_->alive());
    HK_TRY(check(segments));
    const std::lock_guard guard(mutex_);
    std::size_t first = 0;
    do { // no segments: one empty submit for waits and signals
        const std::size_t count = segments_within(segments, first, options.budget_seconds);
        const bool is_last = first + count >= segments.size();
        const Status submitted = within_memory("for what is submitted", [&] {
            return submit_one(segments.subspan(first, count), first == 0, is_last, options);
        });
        if (!submitted.ok()) {
            // Part of the call may be running, and the caller is about to free its buffers.
            settle();
            return submitted;
        }
        first += count;
    } while (first < segments.size());
    return last_;
}

Result<uint64_t> Queue::submit(const CommandBuffer& secondary, double seconds) {
    const Segment segment{&secondary, seconds};
    return submit(std::span(&segment, 1));
}

Result<bool> Queue::wait_value(uint64_t value, uint64_t timeout_nanoseconds) {
    HK_TRY(device_->alive());
    if (value > last_submitted())
        return invalid_argument(
            fmt::format("waiting for value {} of a queue that has submitted up to {}", value, last_submitted()));
    if (poll_by_idling()) {
        const uint64_t reached = last_submitted();
        settle();
        const std::lock_guard guard(mutex_);
        while (!pending_.empty() && pending_.front().value <= reached) pending_.pop_front();
        return true;
    }
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &timeline_;
    info.pValues = &value;
    const VkResult result = device_->functions().vkWaitSemaphores(device_->handle(), &info, timeout_nanoseconds);
    if (result == VK_TIMEOUT) return false;
    if (result < 0) {
        const Status failed = device_->check(result, "vkWaitSemaphores");
        settle();
        return failed;
    }
    for (uint64_t before = reached_; before < value && !reached_.compare_exchange_weak(before, value);) {}
    return true;
}

Status Queue::wait(uint64_t value) {
    for (;;) {
        HK_ASSIGN(const bool done, wait_value(value, UINT64_MAX));
        if (done) return {};
    }
}

Result<bool> Queue::wait_for(uint64_t value, std::chrono::nanoseconds timeout) {
    return wait_value(value, timeout.count() < 0 ? 0 : static_cast<uint64_t>(timeout.count()));
}

Result<bool> Queue::reached(uint64_t value) { return wait_value(value, 0); }

void Queue::give_way() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

Status Queue::wait_all() {
    const uint64_t value = last_submitted();
    return value == 0 ? device_->alive() : wait(value);
}

uint64_t Queue::last_submitted() const {
    const std::lock_guard guard(mutex_);
    return last_;
}

uint64_t Queue::submits() const {
    const std::lock_guard guard(mutex_);
    return submits_;
}

} // namespace hekla::gpu
