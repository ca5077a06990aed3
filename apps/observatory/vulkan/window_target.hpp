// A window's swapchain, recreated when the window is resized.
#pragma once

#include "vulkan/target.hpp"
#include "vulkan/window.hpp"

namespace observatory {

class WindowTarget final : public Target {
public:
    WindowTarget(Device& device, const Window& window);
    ~WindowTarget() override;
    std::optional<Image> acquire(uint32_t frame) override;
    void present() override;

private:
    void make_swapchain();
    void drop_images();
    struct Slot { // per swapchain image
        VkImageView view = VK_NULL_HANDLE;
        VkFramebuffer framebuffer = VK_NULL_HANDLE;
        VkSemaphore drawn = VK_NULL_HANDLE;
    };
    const Window& window_;
    VkSurfaceFormatKHR format_{};
    VkSwapchainKHR swapchain_ = VK_NULL_HANDLE;
    std::vector<Slot> slots_;
    VkSemaphore ready_[kFramesInFlight]{};
    uint32_t current_ = 0;
    bool stale_ = false; // the swapchain no longer fits the window
};

} // namespace observatory
