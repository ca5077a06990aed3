// Frames in flight: each has a command buffer, a value on one timeline, and what its drawing took by the device's
// clock.
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

    // The number of the frame that begin() began last.
    uint64_t number() const { return number_; }
    // Waits until the frame before the last one was executed, and begins the next. Recorded before the target's pass.
    VkCommandBuffer begin();
    // A point that is reached when this frame was executed: what Hekla records into it is leased until then.
    hk_timeline lease() const;
    // Around what the app itself draws.
    void begin_drawing() const;
    void end_drawing() const;
    void submit(const Target::Image& image);
    void wait_all();
    double drawing_microseconds() const { return drawing_; } // of the newest frame that was executed; 0: no timestamps

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
