// A host's hk_allocator as a memory resource of the engine and as allocation callbacks of Vulkan.
#pragma once

#include "api/host_functions.hpp"

#include <memory>
#include <memory_resource>
#include <vulkan/vulkan_core.h>

namespace hekla::api {

// An adapter for an hk_allocator. Thread: any. Must outlive all memory that was allocated with it.
class HostAllocator final : public std::pmr::memory_resource {
public:
    explicit HostAllocator(std::shared_ptr<HostFunctions> host) : host_(std::move(host)) {}
    VkAllocationCallbacks callbacks(); // they point to this
    // Returns callbacks that fall back to the process's memory if the host has none.
    VkAllocationCallbacks unfailing_callbacks();

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override; // throws std::bad_alloc
    void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

    std::shared_ptr<HostFunctions> host_;
};

} // namespace hekla::api
