// Commands that are submitted on their own and waited for. Each object is used by one thread.
#pragma once

#include "vulkan/device.hpp"

#include <functional>

namespace observatory {

class Once {
public:
    explicit Once(Device& device);
    ~Once();
    Once(const Once&) = delete;
    Once& operator=(const Once&) = delete;
    // Submits commands and waits. Their writes are visible to the host afterwards.
    void run(const std::function<void(VkCommandBuffer)>& record);

private:
    Device& device_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkFence done_ = VK_NULL_HANDLE;
};

} // namespace observatory
