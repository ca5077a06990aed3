#include "vulkan/window_target.hpp"

#include "failure.hpp"

#include <algorithm>

namespace observatory {
namespace {

VkSemaphore make_semaphore(VkDevice device) {
    VkSemaphoreCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    VkSemaphore semaphore = VK_NULL_HANDLE;
    require(vkCreateSemaphore(device, &create, nullptr, &semaphore), "vkCreateSemaphore");
    return semaphore;
}

} // namespace

WindowTarget::WindowTarget(Device& device, const Window& window) : Target(device), window_(window) {
    uint32_t count = 0;
    require(vkGetPhysicalDeviceSurfaceFormatsKHR(device.physical(), device.surface(), &count, nullptr),
            "vkGetPhysicalDeviceSurfaceFormatsKHR");
    std::vector<VkSurfaceFormatKHR> formats(count);
    require(vkGetPhysicalDeviceSurfaceFormatsKHR(device.physical(), device.surface(), &count, formats.data()),
            "vkGetPhysicalDeviceSurfaceFormatsKHR");
    if (formats.empty()) throw Failure("the window's surface has no format");
    const auto plain = std::ranges::find_if(formats, [](const VkSurfaceFormatKHR& f) {
        return f.format == VK_FORMAT_B8G8R8A8_UNORM || f.format == VK_FORMAT_R8G8B8A8_UNORM;
    });
    format_ = plain != formats.end() ? *plain : formats.front();
    make_pass(format_.format, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR);
    for (VkSemaphore& semaphore : ready_) semaphore = make_semaphore(device.handle());
    make_swapchain();
}

WindowTarget::~WindowTarget() {
    device_.wait_idle();
    drop_images();
    vkDestroySwapchainKHR(device_.handle(), swapchain_, nullptr);
    for (const VkSemaphore semaphore : ready_) vkDestroySemaphore(device_.handle(), semaphore, nullptr);
    vkDestroyRenderPass(device_.handle(), pass_, nullptr);
}

void WindowTarget::drop_images() {
    for (const Slot& slot : slots_) {
        vkDestroyFramebuffer(device_.handle(), slot.framebuffer, nullptr);
        vkDestroyImageView(device_.handle(), slot.view, nullptr);
        vkDestroySemaphore(device_.handle(), slot.drawn, nullptr);
    }
    slots_.clear();
}

void WindowTarget::make_swapchain() {
    const VkExtent2D pixels = window_.pixels();
    stale_ = true;
    if (pixels.width == 0 || pixels.height == 0) return;
    device_.wait_idle();
    drop_images();
    VkSurfaceCapabilitiesKHR able{};
    require(vkGetPhysicalDeviceSurfaceCapabilitiesKHR(device_.physical(), device_.surface(), &able),
            "vkGetPhysicalDeviceSurfaceCapabilitiesKHR");
    extent_ = able.currentExtent.width != UINT32_MAX ? able.currentExtent : pixels;
    if (extent_.width == 0 || extent_.height == 0) return;
    VkSwapchainCreateInfoKHR create{};
    create.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR;
    create.surface = device_.surface();
    create.minImageCount = able.minImageCount + 1;
    if (able.maxImageCount > 0) create.minImageCount = std::min(create.minImageCount, able.maxImageCount);
    create.imageFormat = format_.format;
    create.imageColorSpace = format_.colorSpace;
    create.imageExtent = extent_;
    create.imageArrayLayers = 1;
    create.imageUsage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT;
    create.preTransform = able.currentTransform;
    create.compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR;
    create.presentMode = VK_PRESENT_MODE_FIFO_KHR;
    create.clipped = VK_TRUE;
    create.oldSwapchain = swapchain_;
    VkSwapchainKHR made = VK_NULL_HANDLE;
    require(vkCreateSwapchainKHR(device_.handle(), &create, nullptr, &made), "vkCreateSwapchainKHR");
    vkDestroySwapchainKHR(device_.handle(), swapchain_, nullptr);
    swapchain_ = made;
    uint32_t count = 0;
    require(vkGetSwapchainImagesKHR(device_.handle(), swapchain_, &count, nullptr), "vkGetSwapchainImagesKHR");
    std::vector<VkImage> images(count);
    require(vkGetSwapchainImagesKHR(device_.handle(), swapchain_, &count, images.data()), "vkGetSwapchainImagesKHR");
    for (const VkImage image : images) {
        Slot slot;
        slot.view = make_view(image, format_.format);
        slot.framebuffer = make_framebuffer(slot.view);
        slot.drawn = make_semaphore(device_.handle());
        slots_.push_back(slot);
    }
    stale_ = false;
}

std::optional<Target::Image> WindowTarget::acquire(uint32_t frame) {
    const VkExtent2D pixels = window_.pixels();
    if (stale_ || pixels.width != extent_.width || pixels.height != extent_.height) make_swapchain();
    if (stale_) return {};
    const VkSemaphore ready = ready_[frame % kFramesInFlight];
    const VkResult result =
        vkAcquireNextImageKHR(device_.handle(), swapchain_, UINT64_MAX, ready, VK_NULL_HANDLE, &current_);
    if (result == VK_ERROR_OUT_OF_DATE_KHR) {
        stale_ = true;
        return {};
    }
    require(result, "vkAcquireNextImageKHR");
    return Image{slots_[current_].framebuffer, ready, slots_[current_].drawn};
}

void WindowTarget::present() {
    VkPresentInfoKHR info{};
    info.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR;
    info.waitSemaphoreCount = 1;
    info.pWaitSemaphores = &slots_[current_].drawn;
    info.swapchainCount = 1;
    info.pSwapchains = &swapchain_;
    info.pImageIndices = &current_;
    const std::lock_guard guard(device_.queue_mutex());
    const VkResult result = vkQueuePresentKHR(device_.queue(), &info);
    if (result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_SUBOPTIMAL_KHR)
        stale_ = true;
    else
        require(result, "vkQueuePresentKHR");
}

} // namespace observatory
