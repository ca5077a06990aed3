#include "gpu/memory.hpp"

#include "base/number_text.hpp"
#include "base/within_memory.hpp"
#include "gpu/device.hpp"
#include "gpu/functions.hpp"
#include "gpu/result.hpp"
#include "gpu/vma.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace hekla::gpu {

namespace {

// A driver maps memory where it unmapped that of another device, which the thread sanitizer does not see. With it, what
// was done with memory that is given back comes before what is done with memory that is taken afterwards.
#ifdef __SANITIZE_THREAD__
char memory_of_drivers;
void note_taken() { __tsan_acquire(&memory_of_drivers); }
void note_given_back() { __tsan_release(&memory_of_drivers); }
#else
void note_taken() {}
void note_given_back() {}
#endif

constexpr VkDeviceSize kAlignment = 256;

VmaVulkanFunctions functions_for_vma(const Functions& f) {
    VmaVulkanFunctions v{};
    v.vkGetPhysicalDeviceProperties = f.vkGetPhysicalDeviceProperties;
    v.vkGetPhysicalDeviceMemoryProperties = f.vkGetPhysicalDeviceMemoryProperties;
    v.vkAllocateMemory = f.vkAllocateMemory;
    v.vkFreeMemory = f.vkFreeMemory;
    v.vkMapMemory = f.vkMapMemory;
    v.vkUnmapMemory = f.vkUnmapMemory;
    v.vkFlushMappedMemoryRanges = f.vkFlushMappedMemoryRanges;
    v.vkInvalidateMappedMemoryRanges = f.vkInvalidateMappedMemoryRanges;
    v.vkBindBufferMemory = f.vkBindBufferMemory;
    v.vkBindImageMemory = f.vkBindImageMemory;
    v.vkGetBufferMemoryRequirements = f.vkGetBufferMemoryRequirements;
    v.vkGetImageMemoryRequirements = f.vkGetImageMemoryRequirements;
    v.vkCreateBuffer = f.vkCreateBuffer;
    v.vkDestroyBuffer = f.vkDestroyBuffer;
    v.vkCreateImage = f.vkCreateImage;
    v.vkDestroyImage = f.vkDestroyImage;
    v.vkCmdCopyBuffer = f.vkCmdCopyBuffer;
    v.vkGetBufferMemoryRequirements2KHR = f.vkGetBufferMemoryRequirements2;
    v.vkGetImageMemoryRequirements2KHR = f.vkGetImageMemoryRequirements2;
    v.vkBindBufferMemory2KHR = f.vkBindBufferMemory2;
    v.vkBindImageMemory2KHR = f.vkBindImageMemory2;
    v.vkGetPhysicalDeviceMemoryProperties2KHR = f.vkGetPhysicalDeviceMemoryProperties2;
    return v;
}

VkBufferCreateInfo buffer_info(uint64_t bytes) {
    VkBufferCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    create.size = bytes;
    create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                   VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    create.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    return create;
}

constexpr uint64_t kRangeAlignment = 65536;

} // namespace

struct Memory::Account {
    std::mutex mutex;
    uint64_t cap = 0;
    uint64_t current = 0;
    uint64_t peak = 0;
    uint64_t buffers = 0;
    struct Range {
        MemoryRange of;
        VkMemoryPropertyFlags flags = 0;
        VmaVirtualBlock block = nullptr;
    };
    std::vector<Range> ranges;
    VkDeviceSize atom = 1; // nonCoherentAtomSize

    Account() = default;
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;
    ~Account() {
        for (const Range& range : ranges)
            if (range.block != nullptr) vmaDestroyVirtualBlock(range.block);
    }
    Status add(const MemoryRange& range, const VkPhysicalDeviceMemoryProperties& types,
               const VkAllocationCallbacks* callbacks);
};

Status Memory::Account::add(const MemoryRange& range, const VkPhysicalDeviceMemoryProperties& types,
                            const VkAllocationCallbacks* callbacks) {
    const auto refuse = [&](const std::string& why) {
        return invalid_argument(fmt::format("memory range {} {}", ranges.size(), why));
    };
    if (range.memory == VK_NULL_HANDLE) return refuse("has no VkDeviceMemory");
    if (range.type >= types.memoryTypeCount)
        return refuse(
            fmt::format("is of the memory type {}, and the device has {}", range.type, types.memoryTypeCount));
    if (range.offset % kRangeAlignment != 0)
        return refuse(fmt::format("begins at {}: a multiple of {} is needed", range.offset, kRangeAlignment));
    if (range.bytes == 0) return refuse("has 0 bytes");
    const VkMemoryPropertyFlags flags = types.memoryTypes[range.type].propertyFlags;
    if (range.mapped != nullptr && (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) == 0)
        return refuse("is mapped, and its memory type is not host-visible");
    VmaVirtualBlockCreateInfo create{};
    create.size = range.bytes;
    create.pAllocationCallbacks = callbacks;
    Range& added = ranges.emplace_back(Range{range, flags, nullptr});
    if (vmaCreateVirtualBlock(&create, &added.block) != VK_SUCCESS) return out_of_memory("for a memory range's table");
    return {};
}

Result<std::shared_ptr<Memory>> Memory::create(std::shared_ptr<Device> device, const MemoryOptions& options) {
    HK_TRY(device->alive());
    if (options.guard_bytes % 16 != 0 || options.guard_bytes > (uint64_t{1} << 30)) {
        return invalid_argument(fmt::format("guard_bytes {}: a multiple of 16, at most 1 GiB", options.guard_bytes));
    }
    auto memory = std::shared_ptr<Memory>(new Memory);
    memory->options_ = options;
    memory->device_ = std::move(device);
    memory->account_ = std::make_shared<Account>();
    memory->account_->cap = options.cap_bytes;
    if (!options.ranges.empty()) {
        VkPhysicalDeviceMemoryProperties types{};
        VkPhysicalDeviceProperties properties{};
        const Functions& f = memory->device_->functions();
        f.vkGetPhysicalDeviceMemoryProperties(memory->device_->physical(), &types);
        f.vkGetPhysicalDeviceProperties(memory->device_->physical(), &properties);
        memory->account_->atom = std::max<VkDeviceSize>(1, properties.limits.nonCoherentAtomSize);
        for (const MemoryRange& range : options.ranges)
            HK_TRY(memory->account_->add(range, types, memory->device_->table_callbacks()));
    }
    HK_TRY(memory->open());
    return memory;
}

Result<std::shared_ptr<Memory>> Memory::create_separate(const Memory& other) {
    auto memory = std::shared_ptr<Memory>(new Memory);
    memory->options_ = other.options_;
    memory->device_ = other.device_;
    memory->account_ = other.account_;
    HK_TRY(memory->open());
    return memory;
}

Status Memory::open() {
    const VmaVulkanFunctions functions = functions_for_vma(device_->functions());
    VmaAllocatorCreateInfo create{};
    create.flags = VMA_ALLOCATOR_CREATE_BUFFER_DEVICE_ADDRESS_BIT;
    if (device_->capabilities().memory_budget) create.flags |= VMA_ALLOCATOR_CREATE_EXT_MEMORY_BUDGET_BIT;
    create.physicalDevice = device_->physical();
    create.device = device_->handle();
    create.instance = device_->instance();
    create.vulkanApiVersion = VK_API_VERSION_1_2;
    create.preferredLargeHeapBlockSize = VkDeviceSize{64} << 20;
    create.pVulkanFunctions = &functions;
    create.pAllocationCallbacks = device_->table_callbacks();
    return device_->check(vmaCreateAllocator(&create, &allocator_), "vmaCreateAllocator");
}

Memory::~Memory() {
    if (allocator_) vmaDestroyAllocator(allocator_);
}

bool Memory::maps_device() const {
    return device_->capabilities().mapped_device_memory && options_.allow_mapped_device;
}

uint64_t Memory::max_buffer_bytes() const {
    const Capabilities& c = device_->capabilities();
    const uint64_t most = std::min(c.max_allocation_bytes, c.max_buffer_bytes);
    // Rounded down to the alignment, without the guard.
    return most > options_.guard_bytes ? (most - options_.guard_bytes) / kAlignment * kAlignment : 0;
}

Status Memory::reserve(uint64_t bytes, std::string_view name) {
    Account& a = *account_;
    const std::lock_guard guard(a.mutex);
    if (a.cap != 0 && (bytes > a.cap || a.current > a.cap - bytes)) {
        return out_of_memory(fmt::format("buffer \"{}\" needs {}; {} of the cap of {} are in use: raise the cap or ask "
                                         "for less",
                                         name, size_text(bytes), size_text(a.current), size_text(a.cap)));
    }
    a.current += bytes;
    a.buffers += 1;
    a.peak = std::max(a.peak, a.current);
    return {};
}

void Memory::give_back(uint64_t bytes) noexcept {
    const std::lock_guard guard(account_->mutex);
    account_->current -= bytes;
    account_->buffers -= 1;
}

Result<Buffer> Memory::create_buffer(uint64_t bytes, Residence residence, std::string name) {
    HK_TRY(device_->alive());
    if (bytes == 0) return invalid_argument(fmt::format("buffer \"{}\": 0 bytes were asked for", name));
    if (bytes > max_buffer_bytes()) {
        return out_of_memory(fmt::format("buffer \"{}\" needs {}; one allocation on {} is at most {}: split it", name,
                                         size_text(bytes), device_->capabilities().device_name,
                                         size_text(max_buffer_bytes())));
    }
    Buffer buffer;
    buffer.held_ = std::make_unique<Buffer::Held>();
    buffer.held_->bytes = bytes;
    buffer.held_->residence = residence == Residence::system && maps_device() ? Residence::device : residence;
    buffer.held_->name = std::move(name);
    HK_TRY(place(*buffer.held_));
    {
        const std::lock_guard guard(held_mutex_);
        held_.push_back(buffer.held_.get());
    }
    buffer.memory_ = shared_from_this(); // from here on, the destructor frees everything
    if (options_.poison && buffer.mapped()) {
        std::memset(buffer.host().data(), 0xFF, static_cast<std::size_t>(buffer.held_->counted_bytes));
        HK_TRY(buffer.flush(0, bytes));
    }
    return buffer;
}

Status Memory::place(Buffer::Held& held) {
    const uint64_t with_guard = (held.bytes + 15) / 16 * 16 + options_.guard_bytes;
    HK_TRY(reserve(with_guard, held.name));
    held.counted_bytes = with_guard;
    auto placed = [&]() -> Status {
        const VkBufferCreateInfo create = buffer_info(with_guard);
        if (allocator_ == nullptr) HK_TRY(open());
        if (!account_->ranges.empty()) {
            HK_TRY(place_in_range(held, create));
        } else {
            VmaAllocationCreateInfo place{};
            switch (held.residence) {
            case Residence::device:
                place.usage = VMA_MEMORY_USAGE_AUTO_PREFER_DEVICE;
                if (maps_device())
                    place.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
                break;
            case Residence::system: place.usage = VMA_MEMORY_USAGE_AUTO_PREFER_HOST; break;
            case Residence::upload:
                place.usage = VMA_MEMORY_USAGE_AUTO;
                place.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_SEQUENTIAL_WRITE_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
                break;
            case Residence::readback:
                place.usage = VMA_MEMORY_USAGE_AUTO_PREFER_HOST;
                place.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
                break;
            }
            VmaAllocationInfo info{};
            VmaAllocation allocation = nullptr;
            const VkResult result =
                vmaCreateBufferWithAlignment(allocator_, &create, &place, kAlignment, &held.buffer, &allocation, &info);
            if (result != VK_SUCCESS) {
                const MemoryUsage now = usage();
                return device_->check(result < 0 ? result : VK_ERROR_UNKNOWN,
                                      fmt::format("buffer \"{}\" of {} on {} ({} in use by us, {} on the device)",
                                                  held.name, size_text(held.bytes), device_->capabilities().device_name,
                                                  size_text(now.current_bytes - with_guard),
                                                  size_text(device_->capabilities().device_memory_bytes)));
            }
            note_taken();
            held.allocation = allocation;
            if (held.residence != Residence::system && (held.residence != Residence::device || maps_device())) {
                held.mapped = static_cast<std::byte*>(info.pMappedData);
                if (!held.mapped)
                    return internal_error(fmt::format("buffer \"{}\" was to be mapped and is not", held.name));
            }
        }
        VkBufferDeviceAddressInfo ask{};
        ask.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
        ask.buffer = held.buffer;
        held.address = device_->functions().vkGetBufferDeviceAddress(device_->handle(), &ask);
        if (held.address == 0 || held.address % kAlignment != 0) {
            return internal_error(
                fmt::format("the driver gave buffer \"{}\" the address {:#x}; a multiple of {} is needed", held.name,
                            held.address, kAlignment));
        }
        device_->set_name(VK_OBJECT_TYPE_BUFFER, reinterpret_cast<uint64_t>(held.buffer), held.name);
        return {};
    }();
    if (!placed.ok()) take_away(held);
    return placed;
}

Status Memory::place_in_range(Buffer::Held& held, const VkBufferCreateInfo& create) {
    const Functions& f = device_->functions();
    HK_TRY(device_->check(f.vkCreateBuffer(device_->handle(), &create, device_->callbacks(), &held.buffer),
                          "vkCreateBuffer"));
    VkMemoryRequirements needs{};
    f.vkGetBufferMemoryRequirements(device_->handle(), held.buffer, &needs);
    VmaVirtualAllocationCreateInfo ask{};
    ask.size = needs.size;
    ask.alignment = std::max<VkDeviceSize>(needs.alignment, kAlignment);
    if (ask.alignment > kRangeAlignment)
        return unsupported(fmt::format("buffer \"{}\" needs an alignment of {} bytes, and memory ranges have {}",
                                       held.name, needs.alignment, kRangeAlignment));
    // The fastest memory for shaders if only they use it, mapped memory if the host does; then whatever fits.
    const bool device = held.residence == Residence::device;
    const bool mapped = !device && held.residence != Residence::system;
    const std::lock_guard guard(account_->mutex);
    for (const bool preferred : {true, false}) {
        for (std::size_t r = 0; r < account_->ranges.size(); ++r) {
            const Account::Range& range = account_->ranges[r];
            if ((needs.memoryTypeBits >> range.of.type & 1) == 0 || (mapped && range.of.mapped == nullptr)) continue;
            const bool local = (range.flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
            if (local != device && preferred) continue;
            VmaVirtualAllocation allocation = nullptr;
            VkDeviceSize offset = 0;
            if (vmaVirtualAllocate(range.block, &ask, &allocation, &offset) != VK_SUCCESS) continue;
            held.allocation = allocation;
            held.range = r;
            held.range_offset = offset;
            if (range.of.mapped != nullptr) held.mapped = range.of.mapped + offset;
            return device_->check(
                f.vkBindBufferMemory(device_->handle(), held.buffer, range.of.memory, range.of.offset + offset),
                "vkBindBufferMemory");
        }
    }
    return out_of_memory(fmt::format("buffer \"{}\" needs {}{}; the host's memory ranges have no room for it: give "
                                     "more, or ask for less",
                                     held.name, size_text(needs.size), mapped ? " that are mapped" : ""));
}

void Memory::take_away(Buffer::Held& held) noexcept {
    if (account_->ranges.empty()) {
        note_given_back();
        vmaDestroyBuffer(allocator_, held.buffer, static_cast<VmaAllocation>(held.allocation));
    } else {
        if (held.buffer) device_->functions().vkDestroyBuffer(device_->handle(), held.buffer, device_->callbacks());
        const std::lock_guard guard(account_->mutex);
        if (held.allocation)
            vmaVirtualFree(account_->ranges[held.range].block, static_cast<VmaVirtualAllocation>(held.allocation));
    }
    if (held.counted_bytes > 0) give_back(held.counted_bytes);
    held.buffer = VK_NULL_HANDLE;
    held.allocation = nullptr;
    held.counted_bytes = 0;
    held.address = 0;
    held.mapped = nullptr;
}

Status Memory::evict(const Download& download) {
    const std::vector<Buffer::Held*> all = held_;
    Status saved = within_memory("for what device memory holds", [&]() -> Status {
        for (Buffer::Held* held : all)
            held->saved.emplace(static_cast<std::size_t>(held->bytes), device_->host_memory());
        for (Buffer::Held* held : all) {
            if (held->mapped != nullptr) {
                HK_TRY(sync(*held, 0, held->bytes, false));
                std::memcpy(held->saved->data(), held->mapped, held->saved->size());
                continue;
            }
            const Buffer from = Buffer::borrow(held->buffer, held->address, held->bytes, held->name);
            HK_TRY(download(from, *held->saved));
        }
        return {};
    });
    if (!saved.ok()) {
        for (Buffer::Held* held : all) held->saved.reset();
        return saved;
    }
    for (Buffer::Held* held : all) take_away(*held);
    vmaDestroyAllocator(std::exchange(allocator_, nullptr)); // it would keep an empty block for the next buffer
    return open();
}

Status Memory::restore(const Upload& upload, const std::function<Status()>& then) {
    const std::vector<Buffer::Held*> all = held_;
    Status back = within_memory("to fill device memory again", [&]() -> Status {
        for (Buffer::Held* held : all) HK_TRY(place(*held));
        for (Buffer::Held* held : all) {
            if (held->mapped != nullptr) {
                std::memcpy(held->mapped, held->saved->data(), held->saved->size());
                HK_TRY(sync(*held, 0, held->bytes, true));
                continue;
            }
            const Buffer to = Buffer::borrow(held->buffer, held->address, held->bytes, held->name);
            HK_TRY(upload(to, *held->saved));
        }
        return then ? then() : Status();
    });
    for (Buffer::Held* held : all) {
        if (back.ok())
            held->saved.reset();
        else if (held->counted_bytes > 0)
            take_away(*held);
    }
    return back;
}

uint64_t Memory::current_bytes() const {
    const std::lock_guard guard(account_->mutex);
    return account_->current;
}

MemoryUsage Memory::usage() const {
    MemoryUsage usage;
    {
        const std::lock_guard guard(account_->mutex);
        usage.current_bytes = account_->current;
        usage.peak_bytes = account_->peak;
        usage.cap_bytes = account_->cap;
        usage.buffers = account_->buffers;
    }
    if (!device_->capabilities().memory_budget || allocator_ == nullptr) return usage;
    const VkPhysicalDeviceMemoryProperties* properties = nullptr;
    vmaGetMemoryProperties(allocator_, &properties);
    VmaBudget budgets[VK_MAX_MEMORY_HEAPS] = {};
    vmaGetHeapBudgets(allocator_, budgets);
    uint64_t largest = 0;
    for (uint32_t i = 0; i < properties->memoryHeapCount; ++i) {
        const VkMemoryHeap& heap = properties->memoryHeaps[i];
        if (!(heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || heap.size <= largest) continue;
        largest = heap.size;
        usage.heap_budget_bytes = budgets[i].budget;
        usage.heap_usage_bytes = budgets[i].usage;
    }
    return usage;
}

Buffer Buffer::borrow(VkBuffer buffer, VkDeviceAddress address, uint64_t bytes, std::string name) {
    Buffer borrowed;
    borrowed.held_ = std::make_unique<Held>();
    borrowed.held_->buffer = buffer;
    borrowed.held_->address = address;
    borrowed.held_->bytes = bytes;
    borrowed.held_->name = std::move(name);
    return borrowed;
}

Buffer::Buffer(Buffer&& other) noexcept = default;

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    release();
    memory_ = std::move(other.memory_);
    held_ = std::move(other.held_);
    return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
    if (memory_ && held_) {
        {
            const std::lock_guard guard(memory_->held_mutex_);
            std::erase(memory_->held_, held_.get());
        }
        memory_->take_away(*held_);
    }
    held_.reset();
    memory_.reset();
}

Status Memory::sync(const Buffer::Held& held, uint64_t offset, uint64_t bytes, bool flush) const {
    const char* what = flush ? "vkFlushMappedMemoryRanges" : "vkInvalidateMappedMemoryRanges";
    if (account_->ranges.empty()) {
        auto* allocation = static_cast<VmaAllocation>(held.allocation);
        return device_->check(flush ? vmaFlushAllocation(allocator_, allocation, offset, bytes)
                                    : vmaInvalidateAllocation(allocator_, allocation, offset, bytes),
                              what);
    }
    const Account::Range& range = account_->ranges[held.range];
    if ((range.flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0) return {};
    // Round to atoms; ranges begin at one, and all but the last end at one.
    const uint64_t begin = range.of.offset + held.range_offset + offset, end = begin + bytes;
    VkMappedMemoryRange mapped{};
    mapped.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
    mapped.memory = range.of.memory;
    mapped.offset = begin / account_->atom * account_->atom;
    mapped.size =
        std::min((end + account_->atom - 1) / account_->atom * account_->atom, range.of.offset + range.of.bytes) -
        mapped.offset;
    const Functions& f = device_->functions();
    return device_->check(flush ? f.vkFlushMappedMemoryRanges(device_->handle(), 1, &mapped)
                                : f.vkInvalidateMappedMemoryRanges(device_->handle(), 1, &mapped),
                          what);
}

Status Buffer::flush(uint64_t offset, uint64_t bytes) const {
    if (!mapped() || offset > held_->bytes || bytes > held_->bytes - offset)
        return internal_error(
            fmt::format("flush of [{}, +{}) in buffer \"{}\" of {} bytes", offset, bytes, name(), this->bytes()));
    return bytes == 0 ? Status() : memory_->sync(*held_, offset, bytes, true);
}

Status Buffer::invalidate(uint64_t offset, uint64_t bytes) const {
    if (!mapped() || offset > held_->bytes || bytes > held_->bytes - offset)
        return internal_error(
            fmt::format("invalidate of [{}, +{}) in buffer \"{}\" of {} bytes", offset, bytes, name(), this->bytes()));
    return bytes == 0 ? Status() : memory_->sync(*held_, offset, bytes, false);
}

} // namespace hekla::gpu
