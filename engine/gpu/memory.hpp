// Device memory: buffers with 64-bit sizes and device addresses, allocated through VMA, counted, capped, and ending in
// a guard (a driver may read a little past the end of what a shader asks for).
#pragma once

#include "gpu/device.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

struct VmaAllocator_T;
struct VmaAllocation_T;

namespace hekla::gpu {

enum class Residence : int32_t {
    device = 0,   // where shaders are fastest. Mapped only where that costs nothing (unified memory, a CPU)
    upload = 1,   // always mapped: the host writes in order, the device reads
    readback = 2, // always mapped and cached: the device writes, the host reads
};

struct MemoryOptions {
    uint64_t cap_bytes = 0;          // 0: no cap of ours. Counts every buffer with its guard
    uint64_t guard_bytes = 16384;    // beyond every buffer's end, readable, content undefined
    bool poison = false;             // fill new mapped buffers with 0xFF (NaN): tests find reads before writes
    bool allow_mapped_device = true; // false: Residence::device is never mapped, so staging runs everywhere (tests)
};

struct MemoryUsage {
    uint64_t current_bytes = 0; // ours
    uint64_t peak_bytes = 0;    // ours, since creation or reset_peak
    uint64_t cap_bytes = 0;     // 0: none
    uint64_t buffers = 0;
    // The device-local heap as the driver sees it, all processes; 0 without VK_EXT_memory_budget.
    uint64_t heap_budget_bytes = 0;
    uint64_t heap_usage_bytes = 0;
};

class Memory;

// Owns one VkBuffer and its memory. Move-only. Must not be destroyed while commands that use it are pending.
class Buffer {
public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();

    // A range of a host's buffer, which stays the host's: `address` is the range's, a multiple of 256. For kernels
    // alone: it is neither mapped nor copied.
    static Buffer borrow(VkBuffer buffer, VkDeviceAddress address, uint64_t bytes, std::string name);

    explicit operator bool() const { return buffer_ != VK_NULL_HANDLE; }
    VkBuffer handle() const { return buffer_; }
    uint64_t bytes() const { return bytes_; } // as asked for, without the guard
    VkDeviceAddress address() const { return address_; }
    Residence residence() const { return residence_; }
    const std::string& name() const { return name_; }

    bool mapped() const { return mapped_ != nullptr; }
    // The whole buffer in the host's address space; empty when not mapped. Mapped for as long as the buffer lives.
    std::span<std::byte> host() const { return {mapped_, mapped_ ? static_cast<std::size_t>(bytes_) : 0}; }
    // After the host wrote / before it reads a range. Free where memory is coherent.
    Status flush(uint64_t offset, uint64_t bytes) const;
    Status invalidate(uint64_t offset, uint64_t bytes) const;

private:
    friend class Memory;
    void release() noexcept;
    std::shared_ptr<Memory> memory_;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VmaAllocation_T* allocation_ = nullptr;
    uint64_t bytes_ = 0;
    uint64_t counted_bytes_ = 0;
    VkDeviceAddress address_ = 0;
    std::byte* mapped_ = nullptr;
    Residence residence_ = Residence::device;
    std::string name_;
};

// Thread: any.
class Memory : public std::enable_shared_from_this<Memory> {
public:
    static Result<std::shared_ptr<Memory>> create(std::shared_ptr<Device> device, const MemoryOptions& options = {});
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // A buffer for addresses, copies and fills. Its address is a multiple of 256. Content is
    // undefined (see MemoryOptions::poison).
    // out_of_memory names the buffer, what was asked, what is in use, the cap and the largest possible size.
    Result<Buffer> create_buffer(uint64_t bytes, Residence residence, std::string name);

    // The largest `bytes` that create_buffer may be asked for: one allocation, guard taken off.
    uint64_t max_buffer_bytes() const;
    MemoryUsage usage() const;
    void reset_peak();
    const std::shared_ptr<Device>& device() const { return device_; }

private:
    friend class Buffer;
    Memory() = default;
    Status reserve(uint64_t bytes, const std::string& name);
    void give_back(uint64_t bytes) noexcept;

    std::shared_ptr<Device> device_;
    MemoryOptions options_;
    VmaAllocator_T* allocator_ = nullptr;
    mutable std::mutex mutex_;
    uint64_t current_ = 0;
    uint64_t peak_ = 0;
    uint64_t buffers_ = 0;
};

} // namespace hekla::gpu
