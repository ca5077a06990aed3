#include "vulkan/image_target.hpp"

#include "failure.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/one_shot_commands.hpp"

#include <cstring>

namespace observatory {
namespace {

constexpr VkFormat kImageFormat = VK_FORMAT_R8G8B8A8_UNORM;

} // namespace

ImageTarget::ImageTarget(Device& device, VkExtent2D extent) : Target(device) {
    extent_ = extent;
    VkImageCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    create.imageType = VK_IMAGE_TYPE_2D;
    create.format = kImageFormat;
    create.extent = {extent.width, extent.height, 1};
    create.mipLevels = 1;
    create.arrayLayers = 1;
    create.samples = VK_SAMPLE_COUNT_1_BIT;
    create.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    require(vkCreateImage(device.handle(), &create, nullptr, &image_), "vkCreateImage");
    VkMemoryRequirements needs{};
    vkGetImageMemoryRequirements(device.handle(), image_, &needs);
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = device.memory_type(needs.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    require(vkAllocateMemory(device.handle(), &allocate, nullptr, &memory_), "vkAllocateMemory");
    require(vkBindImageMemory(device.handle(), image_, memory_, 0), "vkBindImageMemory");
    make_pass(kImageFormat, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    view_ = make_view(image_, kImageFormat);
    framebuffer_ = make_framebuffer(view_);
}

ImageTarget::~ImageTarget() {
    device_.wait_idle();
    vkDestroyFramebuffer(device_.handle(), framebuffer_, nullptr);
    vkDestroyRenderPass(device_.handle(), pass_, nullptr);
    vkDestroyImageView(device_.handle(), view_, nullptr);
    vkDestroyImage(device_.handle(), image_, nullptr);
    vkFreeMemory(device_.handle(), memory_, nullptr);
}

std::optional<Target::Image> ImageTarget::acquire(uint32_t) { return Image{framebuffer_, {}, {}}; }

std::vector<std::byte> ImageTarget::pixels() {
    const uint64_t bytes = uint64_t{extent_.width} * extent_.height * 4;
    const Buffer into(device_, bytes, Buffer::Storage::mapped);
    Once(device_).run([&](VkCommandBuffer commands) {
        VkBufferImageCopy region{};
        region.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
        region.imageExtent = {extent_.width, extent_.height, 1};
        vkCmdCopyImageToBuffer(commands, image_, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, into.handle(), 1, &region);
    });
    std::vector<std::byte> result(bytes);
    std::memcpy(result.data(), into.as<std::byte>(), bytes);
    return result;
}

} // namespace observatory
