// The images that frames are drawn to: those of a window, or a single image for screenshots.
#pragma once

#include "vulkan/device.hpp"

#include <optional>
#include <vector>

namespace observatory {

class Target {
public:
    static constexpr uint32_t kFramesInFlight = 2;
    struct Image {
        VkFramebuffer framebuffer = VK_NULL_HANDLE;
        VkSemaphore ready = VK_NULL_HANDLE; // wait for it before drawing; null: nothing to wait for
        VkSemaphore drawn = VK_NULL_HANDLE; // signal it after drawing; null: not needed
    };

    virtual ~Target() = default;
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    VkRenderPass pass() const { return pass_; }
    VkExtent2D extent() const { return extent_; }
    // Returns nothing if there is currently no image (the window is minimized, or being resized).
    virtual std::optional<Image> acquire(uint32_t frame) = 0;
    virtual void present() = 0; // presents the image of the last acquire(), after it was submitted

protected:
    explicit Target(Device& device) : device_(device) {}
    void make_pass(VkFormat format, VkImageLayout end);
    VkImageView make_view(VkImage image, VkFormat format) const;
    VkFramebuffer make_framebuffer(VkImageView view) const;
    Device& device_;
    VkRenderPass pass_ = VK_NULL_HANDLE;
    VkExtent2D extent_{};
};

} // namespace observatory
