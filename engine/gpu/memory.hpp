// Device memory: buffers with 64-bit sizes and device addresses, allocated through VMA, counted, capped, and followed
// by a guard (a driver may read a little past the end of a shader's access).
#pragma once

#include "base/status.hpp"
#include "gpu/newer_vulkan.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct VmaAllocator_T;

namespace hekla::gpu {

class Device;

enum class Residence : int32_t {
    device = 0,   // fastest for shaders. Mapped only if that costs nothing (unified memory, a CPU)
    upload = 1,   // always mapped: the host writes in order, the device reads
    readback = 2, // always mapped and cached: the device writes, the host reads
    system = 3, // the host's memory, which shaders read and write over the bus: large, and used once a step. On unified
                // memory and CPUs like device
};

// Memory provided by the host for buffers.
struct MemoryRange {
    VkDeviceMemory memory = VK_NULL_HANDLE; // allocated with VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
    uint32_t type = 0;                      // its index among the device's memory types
    uint64_t offset = 0, bytes = 0;         // the offset a multiple of 65,536
    std::byte* mapped = nullptr;            // host address of the byte at `offset`; null: not mapped
};

struct MemoryOptions {
    uint64_t cap_bytes = 0;               // 0: no additional cap. Counts every buffer with its guard
    uint64_t guard_bytes = 16384;         // after every buffer's end, readable, content undefined
    bool poison = false;                  // fill new mapped buffers with 0xFF (NaN): tests find reads before writes
    bool allow_mapped_device = true;      // false: Residence::device is never mapped, so staging is always used (tests)
    std::vector<MemoryRange> ranges = {}; // for all buffers; empty: own allocations
};

struct MemoryUsage {
    uint64_t current_bytes = 0; // of this engine
    uint64_t peak_bytes = 0;    // of this engine, since creation
    uint64_t cap_bytes = 0;     // 0: none
    uint64_t buffers = 0;
    // The device-local heap as reported by the driver, for all processes; 0 without VK_EXT_memory_budget.
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

    // Borrows a range of a host's buffer: `address` is the range's, a multiple of 256. Only for kernels: it is neither
    // mapped nor copied.
    static Buffer borrow(VkBuffer buffer, VkDeviceAddress address, uint64_t bytes, std::string name);

    explicit operator bool() const { return held_ != nullptr; }
    // Handle, address and mapping change when memory was evicted and restored (gpu/eviction.hpp).
    VkBuffer handle() const { return held_ ? held_->buffer : VK_NULL_HANDLE; }
    uint64_t bytes() const { return held_ ? held_->bytes : 0; } // as requested, without the guard
    VkDeviceAddress address() const { return held_ ? held_->address : 0; }
    Residence residence() const { return held_ ? held_->residence : Residence::device; }
    std::string_view name() const { return held_ ? std::string_view(held_->name) : std::string_view(); }

    bool mapped() const { return held_ && held_->mapped != nullptr; }
    // Returns the whole buffer in the host's address space; empty if not mapped. Mapped as long as the buffer lives.
    std::span<std::byte> host() const {
        return mapped() ? std::span(held_->mapped, static_cast<std::size_t>(held_->bytes)) : std::span<std::byte>();
    }
    // flush(): after the host wrote a range; invalidate(): before it reads one. Free if memory is coherent.
    Status flush(uint64_t offset, uint64_t bytes) const;
    Status invalidate(uint64_t offset, uint64_t bytes) const;

private:
    friend class Memory;
    struct Held {
        VkBuffer buffer = VK_NULL_HANDLE;
        void* allocation = nullptr; // VMA's, or of a range's virtual block
        std::size_t range = 0;      // of MemoryOptions::ranges, if there are any
        uint64_t range_offset = 0;
        uint64_t bytes = 0;
        uint64_t counted_bytes = 0; // counted in the account; 0: no memory
        VkDeviceAddress address = 0;
        std::byte* mapped = nullptr;
        Residence residence = Residence::device;
        std::string name;
        std::optional<std::pmr::vector<std::byte>> saved; // while the memory is evicted
    };
    void release() noexcept;
    std::shared_ptr<Memory> memory_; // null: a host's buffer
    std::unique_ptr<Held> held_;
};

// Memory of one device. Thread: any.
class Memory : public std::enable_shared_from_this<Memory> {
public:
    static Result<std::shared_ptr<Memory>> create(std::shared_ptr<Device> device, const MemoryOptions& options = {});
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // Creates another memory of the same device, which is evicted separately, counts towards the same cap and shares
    // ranges.
    static Result<std::shared_ptr<Memory>> create_separate(const Memory& other);

    // evict() copies every buffer to the host and frees all device memory. restore() restores the buffers, at new
    // addresses. Nothing that uses them may be pending, and no buffer may be made in between. out_of_memory: nothing
    // has changed. `download` and `upload` copy whole buffers that are not mapped (gpu/eviction.hpp: through a queue).
    // `then` is called at the end of restore(); where it fails or throws std::bad_alloc, everything is evicted again,
    // which needs no memory.
    using Download = std::function<Status(const Buffer& from, std::span<std::byte> to)>;
    using Upload = std::function<Status(const Buffer& to, std::span<const std::byte> from)>;
    Status evict(const Download& download);
    Status restore(const Upload& upload, const std::function<Status()>& then = {});

    // Creates a buffer for addresses, copies and fills. Its address is a multiple of 256. Content is undefined (see
    // MemoryOptions::poison). out_of_memory contains the buffer's name, the requested size, the memory in use, the cap
    // and the largest possible size.
    Result<Buffer> create_buffer(uint64_t bytes, Residence residence, std::string name);

    // Returns the largest `bytes` for create_buffer: one allocation, without the guard.
    uint64_t max_buffer_bytes() const;
    MemoryUsage usage() const;
    uint64_t current_bytes() const; // of usage(), without asking the driver
    const std::shared_ptr<Device>& device() const { return device_; }

private:
    friend class Buffer;
    struct Account; // memory in use, and the ranges; shared
    Memory() = default;
    Status open();
    Status reserve(uint64_t bytes, std::string_view name);
    void give_back(uint64_t bytes) noexcept;
    // Creates the buffer and its memory as described by `held`.
    Status place(Buffer::Held& held);
    Status place_in_range(Buffer::Held& held, const VkBufferCreateInfo& create);
    void take_away(Buffer::Held& held) noexcept;
    Status sync(const Buffer::Held& held, uint64_t offset, uint64_t bytes, bool flush) const;
    bool maps_device() const;

    std::shared_ptr<Device> device_;
    MemoryOptions options_;
    std::shared_ptr<Account> account_;
    VmaAllocator_T* allocator_ = nullptr;
    std::mutex held_mutex_;
    std::vector<Buffer::Held*> held_; // all buffers, in the order of their creation
};

} // namespace hekla::gpu
