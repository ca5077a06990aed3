#include "api/host_allocator.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace hekla::api {
namespace {

// Sizes of an allocation, stored before the memory, because Vulkan frees by address alone.
struct AskedFor {
    std::size_t bytes;     // of the allocation, with this header
    std::size_t alignment; // of the allocation
    std::size_t offset;    // of the memory that Vulkan gets
    std::pmr::memory_resource* from;
};

AskedFor asked_for(const void* memory) {
    AskedFor asked{};
    std::memcpy(&asked, static_cast<const std::byte*>(memory) - sizeof asked, sizeof asked);
    return asked;
}

void* allocate_from(std::pmr::memory_resource* from, size_t bytes, size_t alignment) {
    AskedFor asked{};
    asked.from = from;
    asked.alignment = std::max(alignment, alignof(AskedFor));
    asked.offset = (sizeof asked + asked.alignment - 1) / asked.alignment * asked.alignment;
    asked.bytes = asked.offset + bytes;
    try {
        auto* whole = static_cast<std::byte*>(from->allocate(asked.bytes, asked.alignment));
        std::memcpy(whole + asked.offset - sizeof asked, &asked, sizeof asked);
        return whole + asked.offset;
    } catch (const std::bad_alloc&) { return nullptr; }
}

VKAPI_ATTR void* VKAPI_CALL allocate_for_vulkan(void* user, size_t bytes, size_t alignment, VkSystemAllocationScope) {
    return allocate_from(static_cast<std::pmr::memory_resource*>(user), bytes, alignment);
}

VKAPI_ATTR void* VKAPI_CALL allocate_unfailing(void* user, size_t bytes, size_t alignment, VkSystemAllocationScope) {
    void* memory = allocate_from(static_cast<std::pmr::memory_resource*>(user), bytes, alignment);
    return memory != nullptr ? memory : allocate_from(std::pmr::new_delete_resource(), bytes, alignment);
}

VKAPI_ATTR void VKAPI_CALL release_of_vulkan(void*, void* memory) {
    if (memory == nullptr) return;
    const AskedFor asked = asked_for(memory);
    asked.from->deallocate(static_cast<std::byte*>(memory) - asked.offset, asked.bytes, asked.alignment);
}

VKAPI_ATTR void* VKAPI_CALL reallocate_for_vulkan(void* user, void* memory, size_t bytes, size_t alignment,
                                                  VkSystemAllocationScope scope) {
    if (bytes == 0) {
        release_of_vulkan(user, memory);
        return nullptr;
    }
    void* larger = allocate_for_vulkan(user, bytes, alignment, scope);
    if (larger == nullptr || memory == nullptr) return larger;
    const AskedFor asked = asked_for(memory);
    std::memcpy(larger, memory, std::min(bytes, asked.bytes - asked.offset));
    release_of_vulkan(user, memory);
    return larger;
}

} // namespace

VkAllocationCallbacks HostAllocator::callbacks() {
    VkAllocationCallbacks callbacks{};
    callbacks.pUserData = static_cast<std::pmr::memory_resource*>(this);
    callbacks.pfnAllocation = allocate_for_vulkan;
    callbacks.pfnReallocation = reallocate_for_vulkan;
    callbacks.pfnFree = release_of_vulkan;
    return callbacks;
}

VkAllocationCallbacks HostAllocator::unfailing_callbacks() {
    VkAllocationCallbacks unfailing = callbacks();
    unfailing.pfnAllocation = allocate_unfailing;
    return unfailing;
}

void* HostAllocator::do_allocate(std::size_t bytes, std::size_t alignment) {
    void* memory =
        host_->allocator.call([&](const hk_allocator& host) { return host.allocate(host.user, bytes, alignment); });
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

void HostAllocator::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
    host_->allocator.call([&](const hk_allocator& host) { host.release(host.user, memory, bytes, alignment); });
}

} // namespace hekla::api
