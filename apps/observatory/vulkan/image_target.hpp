// A target without a window system: one image, which can be read back.
#pragma once

#include "vulkan/target.hpp"

#include <cstddef>

namespace observatory {

class ImageTarget final : public Target {
public:
    ImageTarget(Device& device, VkExtent2D extent);
    ~ImageTarget() override;
    std::optional<Image> acquire(uint32_t frame) override;
    void present() override {}
    // Returns rows of red, green, blue, alpha, from the top. Waits for the device; a frame must have been drawn.
    std::vector<std::byte> pixels();

private:
    VkImage image_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    VkImageView view_ = VK_NULL_HANDLE;
    VkFramebuffer framebuffer_ = VK_NULL_HANDLE;
};

} // namespace observatory
