// Submits recorded work, split into submits by estimated cost, and waits for it on one timeline semaphore.
#pragma once

#include "base/resource_allocator.hpp"
#include "gpu/commands.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace hekla::gpu {

// A finished secondary command buffer and its duration on this device.
struct Segment {
    const CommandBuffer* commands = nullptr;
    double seconds = 0; // estimated; 0: negligible
    // Measured seconds, shared by recordings of the same work; 0: not yet measured. Only read and written by the queue
    // (budgeted_queue.hpp). Null: not measured.
    std::shared_ptr<double> measured = nullptr;
    // Whether the commands can be recorded again, into the same buffer, after the memory that they use has moved.
    bool rerecordable = false;
};

// A point on a timeline semaphore of the host or of another queue.
struct TimelinePoint {
    VkSemaphore semaphore = VK_NULL_HANDLE;
    uint64_t value = 0;
};

struct SubmitOptions {
    // Longest estimated duration of one vkQueueSubmit2, in seconds; one segment is always submitted. 0: no limit.
    double budget_seconds = 0;
    std::span<const TimelinePoint> waits;   // before the first segment
    std::span<const TimelinePoint> signals; // after the last
};

// Returns how many segments from `first` fit the budget, at least one. budget_seconds 0: all.
std::size_t segments_within(std::span<const Segment> segments, std::size_t first, double budget_seconds);

// A queue of the device with one timeline semaphore. Thread: any. A pending segment must not be submitted again: wait
// for the value of its last submit first.
class Queue {
public:
    static Result<std::shared_ptr<Queue>> create(std::shared_ptr<Device> device);
    virtual ~Queue(); // waits for pending work
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    // Runs the segments in order and returns the value of this queue's timeline when all is done. The recorder is
    // responsible for barriers: a barrier inside any segment orders it against every earlier command of this queue,
    // including other submits. There is a full barrier before the first segment of each call and, towards the host,
    // after the last, so results of one call are visible to the next call and, after a wait, to the host. After an
    // error nothing of it is still running.
    virtual Result<uint64_t> submit(std::span<const Segment> segments, const SubmitOptions& options = {});
    Result<uint64_t> submit(const CommandBuffer& secondary, double seconds = 0);

    // Waits without a timeout until the value is reached or the device is lost.
    Status wait(uint64_t value);
    // Returns false on timeout.
    Result<bool> wait_for(uint64_t value, std::chrono::nanoseconds timeout);
    Result<bool> reached(uint64_t value);
    virtual Status wait_all(); // everything submitted so far
    // For code that frees memory in use by the device: `waited` is the result of waiting for it. If that failed, waits
    // until the device's queue is idle (immediately on a lost one). Cancelled work has ended by then.
    void settle_after(const Status& waited) const {
        if (!waited.ok() && waited.code() != Code::cancelled && last_submitted() > 0) settle();
    }
    // For code that waits for another thread: sleeps for a millisecond, or runs other sessions on this thread.
    virtual void give_way();
    uint64_t last_submitted() const;

    VkSemaphore timeline() const { return timeline_; }
    const std::shared_ptr<Device>& device() const { return device_; }
    uint64_t submits() const; // vkQueueSubmit2 calls so far

protected:
    Queue() = default;
    Status open(std::shared_ptr<Device> device);
    static Status check(std::span<const Segment> segments);
    virtual Result<bool> wait_value(uint64_t value, uint64_t timeout_nanoseconds);
    // Submits a finished primary and returns the value of the timeline when it is done. The caller keeps the buffer
    // until then.
    Result<uint64_t> send(const CommandBuffer& primary, std::span<const TimelinePoint> waits,
                          std::span<const TimelinePoint> signals);
    // Record the barriers before the first segment of one submit() and after its last.
    static void begin_work(CommandBuffer& commands) { commands.barrier(); }
    static void end_work(CommandBuffer& commands);
    const std::shared_ptr<CommandPool>& pool() const { return pool_; }

private:
    struct Primary {
        CommandBuffer commands;
        uint64_t value = 0; // when it can be reused
    };
    Result<CommandBuffer> take_primary();
    Status submit_one(std::span<const Segment> segments, bool is_first, bool is_last, const SubmitOptions& options);
    Status send_locked(const CommandBuffer& primary, std::span<const TimelinePoint> waits,
                       std::span<const TimelinePoint> signals);
    void settle() const;
    bool poll_by_idling() const;

    std::shared_ptr<Device> device_;
    std::shared_ptr<CommandPool> pool_;
    VkSemaphore timeline_ = VK_NULL_HANDLE;
    mutable std::mutex mutex_;
    uint64_t last_ = 0;
    uint64_t submits_ = 0;
    std::atomic<uint64_t> reached_ = 0;                       // the greatest value that a wait has seen
    std::deque<Primary, ResourceAllocator<Primary>> pending_; // in the host's memory
};

} // namespace hekla::gpu
