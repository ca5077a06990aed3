#include "vulkan/buffer.hpp"

#include "failure.hpp"

namespace observatory {

Buffer::Buffer(Device& device, uint64_t bytes, Storage place) : device_(&device), bytes_(bytes) {
    VkBufferCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    create.size = bytes;
    create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                   VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
    require(vkCreateBuffer(device.handle(), &create, nullptr, &buffer_), "vkCreateBuffer");
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device.handle(), buffer_, &needs);
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.pNext = &flags;
    allocate.allocationSize = needs.size;
    const bool mapped = place == Storage::mapped;
    allocate.memoryTypeIndex = device.memory_type(
        needs.memoryTypeBits, mapped ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
                                     : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    require(vkAllocateMemory(device.handle(), &allocate, nullptr, &memory_), "vkAllocateMemory");
    require(vkBindBufferMemory(device.handle(), buffer_, memory_, 0), "vkBindBufferMemory");
    if (mapped) require(vkMapMemory(device.handle(), memory_, 0, VK_WHOLE_SIZE, 0, &mapped_), "vkMapMemory");
    VkBufferDeviceAddressInfo ask{};
    ask.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
    ask.buffer = buffer_;
    address_ = vkGetBufferDeviceAddress(device.handle(), &ask);
}

Buffer::~Buffer() {
    if (device_ == nullptr) return;
    vkDestroyBuffer(device_->handle(), buffer_, nullptr);
    vkFreeMemory(device_->handle(), memory_, nullptr);
}

} // namespace observatory
