// A host's hk_allocator as the engine and Vulkan ask for memory.
#pragma once

#include "api/host_functions.hpp"

#include <memory>
#include <memory_resource>
#include <vulkan/vulkan_core.h>

namespace hekla::api {

// Thread: any, where the host's functions are. Must outlive all that was allocated with it.
class HostAllocator final : public std::pmr::memory_resource {
public:
    explicit HostAllocator(std::shared_ptr<HostFunctions> host) : host_(std::move(host)) {}
    VkAllocationCallbacks callbacks(); // they point to this
    // The same, from the process's own memory where the host has none.
    VkAllocationCallbacks unfailing_callbacks();

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override; // throws std::bad_alloc
    void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

    std::shared_ptr<HostFunctions> host_;
};

} // namespace hekla::api
