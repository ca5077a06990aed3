// The app's own Vulkan device, with one queue that it shares with Hekla.
#pragma once

#include "vulkan/window.hpp"

#include <atomic>
#include <hekla/device.h>
#include <mutex>
#include <span>
#include <string>
#include <vector>
#include <vulkan/vulkan.h>

namespace observatory {

struct DeviceOptions {
    std::string select;             // an index, or a part of a device's name; "": a GPU if there is one
    bool validate = false;          // the validation layer; its messages are counted and written to stderr
    const Window* window = nullptr; // a window that the device must be able to present to, or null
};

class Device {
public:
    // Throws a Failure that names what is missing.
    explicit Device(const DeviceOptions& options);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    VkInstance instance() const { return instance_; }
    VkPhysicalDevice physical() const { return physical_; }
    VkDevice handle() const { return device_; }
    VkSurfaceKHR surface() const { return surface_; } // null without a window
    uint32_t family() const { return family_; }
    VkQueue queue() const { return queue_; } // guarded by queue_mutex()
    std::mutex& queue_mutex() { return queue_mutex_; }
    const std::string& name() const { return name_; }
    double nanoseconds_per_tick() const { return tick_; } // of the queue's timestamps; 0: not supported
    uint64_t validation_messages() const { return messages_; }
    // For hk_context_options.vulkan; valid as long as this object.
    const hk_vulkan_device& wrapped() const { return wrapped_; }

    // Throws if the device has no such memory.
    uint32_t memory_type(uint32_t allowed, VkMemoryPropertyFlags wanted) const;
    // Creates a pool and command buffers that can be re-recorded; they are destroyed with the pool.
    void make_commands(VkCommandPool& pool, std::span<VkCommandBuffer> commands) const;
    void wait_idle();

private:
    void make_instance(const DeviceOptions& options);
    void choose(const std::string& select);
    void choose_queue();
    void make_device();
    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    VkSurfaceKHR surface_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_ = VK_NULL_HANDLE;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    uint32_t family_ = 0;
    double tick_ = 0;
    std::string name_;
    std::mutex queue_mutex_;
    std::atomic<uint64_t> messages_{0};
    VkPhysicalDeviceMemoryProperties memory_{};
    // The device's create info, which Hekla reads when it creates a context.
    float priority_ = 1.0F;
    VkDeviceQueueCreateInfo queue_info_{};
    VkPhysicalDeviceVulkan12Features features12_{};
    std::vector<const char*> extensions_;
    VkDeviceCreateInfo info_{};
    hk_device_requirements needs_{};
    hk_vulkan_device wrapped_{};
};

} // namespace observatory
