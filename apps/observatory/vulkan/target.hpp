// What frames are drawn to: a window's images, or one image that nobody sees but a screenshot.
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
        VkSemaphore ready = VK_NULL_HANDLE; // to be waited for before drawing; null: nothing to wait for
        VkSemaphore drawn = VK_NULL_HANDLE; // to be signalled behind it; null: nobody waits
    };

    virtual ~Target() = default;
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    VkRenderPass pass() const { return pass_; }
    VkExtent2D extent() const { return extent_; }
    // Nothing: there is none to draw to at the moment (the window is minimized, or being resized).
    virtual std::optional<Image> acquire(uint32_t frame) = 0;
    virtual void present() = 0; // the image of the last acquire(), once it was submitted

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
