// A buffer of the app that shaders access by its address.
#pragma once

#include "vulkan/device.hpp"

#include <cstdint>
#include <utility>

namespace observatory {

class Buffer {
public:
    enum class Storage { device, mapped }; // mapped: coherent, the host reads and writes it
    Buffer() = default;
    Buffer(Device& device, uint64_t bytes, Storage place);
    ~Buffer();
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }

    explicit operator bool() const { return buffer_ != VK_NULL_HANDLE; }
    VkBuffer handle() const { return buffer_; }
    uint64_t bytes() const { return bytes_; }
    VkDeviceAddress address() const { return address_; }
    // Only for Storage::mapped.
    template<class T>
    T* as() const {
        return static_cast<T*>(mapped_);
    }

private:
    void swap(Buffer& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(buffer_, other.buffer_);
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
        std::swap(address_, other.address_);
        std::swap(mapped_, other.mapped_);
    }
    Device* device_ = nullptr;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    uint64_t bytes_ = 0;
    VkDeviceAddress address_ = 0;
    void* mapped_ = nullptr;
};

} // namespace observatory
