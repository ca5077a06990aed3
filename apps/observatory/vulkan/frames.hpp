// Frames in flight: each has a command buffer, a value on a shared timeline semaphore, and GPU timestamps of its
// drawing.
#pragma once

#include "vulkan/target.hpp"

#include <array>
#include <hekla/session.h>

namespace observatory {

class Frames {
public:
    explicit Frames(Device& device);
    ~Frames();
    Frames(const Frames&) = delete;
    Frames& operator=(const Frames&) = delete;

    // Returns the number of the frame that begin() started last.
    uint64_t number() const { return number_; }
    // Waits until the frame before the last one has completed, and starts the next. Record before the target's render
    // pass.
    VkCommandBuffer begin();
    // Returns the timeline point at which this frame completes. Hekla's commands in the frame are leased until then.
    hk_timeline lease() const;
    // Called before and after the app's own drawing.
    void begin_drawing() const;
    void end_drawing() const;
    void submit(const Target::Image& image);
    void wait_all();
    double drawing_microseconds() const { return drawing_; } // of the newest completed frame; 0: no timestamps

private:
    static constexpr uint32_t kCount = Target::kFramesInFlight;
    uint32_t slot() const { return static_cast<uint32_t>(number_ % kCount); }
    void wait(uint64_t number) const;
    Device& device_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    std::array<VkCommandBuffer, kCount> commands_{};
    VkSemaphore timeline_ = VK_NULL_HANDLE;
    VkQueryPool times_ = VK_NULL_HANDLE;
    uint64_t number_ = 0;
    double drawing_ = 0;
};

} // namespace observatory
