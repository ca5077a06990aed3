#include "gpu/memory.hpp"

#include "gpu/result.hpp"
#include "gpu/vma.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace hekla::gpu {

namespace {

constexpr VkDeviceSize alignment = 256;

std::string in_mib(uint64_t bytes) {
    if (bytes < (uint64_t{1} << 20)) return fmt::format("{} bytes", bytes);
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

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

} // namespace

Result<std::shared_ptr<Memory>> Memory::create(std::shared_ptr<Device> device, const MemoryOptions& options) {
    HK_TRY(device->alive());
    if (options.guard_bytes % 16 != 0 || options.guard_bytes > (uint64_t{1} << 30)) {
        return invalid_argument(fmt::format("guard_bytes {}: a multiple of 16, at most 1 GiB", options.guard_bytes));
    }
    auto memory = std::shared_ptr<Memory>(new Memory);
    memory->options_ = options;
    const VmaVulkanFunctions functions = functions_for_vma(device->functions());
    VmaAllocatorCreateInfo create{};
    create.flags = VMA_ALLOCATOR_CREATE_BUFFER_DEVICE_ADDRESS_BIT;
    if (device->capabilities().memory_budget) create.flags |= VMA_ALLOCATOR_CREATE_EXT_MEMORY_BUDGET_BIT;
    create.physicalDevice = device->physical();
    create.device = device->handle();
    create.instance = device->instance();
    create.vulkanApiVersion = VK_API_VERSION_1_2;
    create.preferredLargeHeapBlockSize = VkDeviceSize{64} << 20;
    create.pVulkanFunctions = &functions;
    HK_TRY(device->check(vmaCreateAllocator(&create, &memory->allocator_), "vmaCreateAllocator"));
    memory->device_ = std::move(device);
    return memory;
}

Memory::~Memory() {
    if (allocator_) vmaDestroyAllocator(allocator_);
}

uint64_t Memory::max_buffer_bytes() const {
    const Capabilities& c = device_->capabilities();
    const uint64_t most = std::min(c.max_allocation_bytes, c.max_buffer_bytes);
    // Whole alignments, and the guard taken off.
    return most > options_.guard_bytes ? (most - options_.guard_bytes) / alignment * alignment : 0;
}

Status Memory::reserve(uint64_t bytes, const std::string& name) {
    const std::lock_guard guard(mutex_);
    if (options_.cap_bytes != 0 && (bytes > options_.cap_bytes || current_ > options_.cap_bytes - bytes)) {
        return out_of_memory(fmt::format("buffer \"{}\" needs {}; {} of the cap of {} are in use: raise the cap or ask "
                                         "for less",
                                         name, in_mib(bytes), in_mib(current_), in_mib(options_.cap_bytes)));
    }
    current_ += bytes;
    buffers_ += 1;
    peak_ = std::max(peak_, current_);
    return {};
}

void Memory::give_back(uint64_t bytes) noexcept {
    const std::lock_guard guard(mutex_);
    current_ -= bytes;
    buffers_ -= 1;
}

Result<Buffer> Memory::create_buffer(uint64_t bytes, Residence residence, std::string name) {
    HK_TRY(device_->alive());
    if (bytes == 0) return invalid_argument(fmt::format("buffer \"{}\": 0 bytes were asked for", name));
    if (bytes > max_buffer_bytes()) {
        return out_of_memory(fmt::format("buffer \"{}\" needs {}; one allocation on {} is at most {}: split it", name,
                                         in_mib(bytes), device_->capabilities().device_name,
                                         in_mib(max_buffer_bytes())));
    }
    const uint64_t with_guard = (bytes + 15) / 16 * 16 + options_.guard_bytes;
    HK_TRY(reserve(with_guard, name));

    VkBufferCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    create.size = with_guard;
    create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                   VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    create.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    VmaAllocationCreateInfo place{};
    switch (residence) {
    case Residence::device:
        place.usage = VMA_MEMORY_USAGE_AUTO_PREFER_DEVICE;
        if (device_->capabilities().mapped_device_memory && options_.allow_mapped_device) {
            place.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
        }
        break;
    case Residence::upload:
        place.usage = VMA_MEMORY_USAGE_AUTO;
        place.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_SEQUENTIAL_WRITE_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
        break;
    case Residence::readback:
        place.usage = VMA_MEMORY_USAGE_AUTO_PREFER_HOST;
        place.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
        break;
    }

    Buffer buffer;
    buffer.bytes_ = bytes;
    buffer.counted_bytes_ = with_guard;
    buffer.residence_ = residence;
    buffer.name_ = std::move(name);
    VmaAllocationInfo info{};
    const VkResult result = vmaCreateBufferWithAlignment(allocator_, &create, &place, alignment, &buffer.buffer_,
                                                         &buffer.allocation_, &info);
    if (result != VK_SUCCESS) {
        give_back(with_guard);
        const MemoryUsage now = usage();
        return device_->check(result < 0 ? result : VK_ERROR_UNKNOWN,
                              fmt::format("buffer \"{}\" of {} on {} ({} in use by us, {} on the device)", buffer.name_,
                                          in_mib(bytes), device_->capabilities().device_name, in_mib(now.current_bytes),
                                          in_mib(device_->capabilities().device_memory_bytes)));
    }
    buffer.memory_ = shared_from_this(); // from here on, the destructor gives everything back
    if (residence != Residence::device ||
        (device_->capabilities().mapped_device_memory && options_.allow_mapped_device)) {
        buffer.mapped_ = static_cast<std::byte*>(info.pMappedData);
        if (!buffer.mapped_) {
            return internal_error(fmt::format("buffer \"{}\" was to be mapped and is not", buffer.name_));
        }
    }
    VkBufferDeviceAddressInfo ask{};
    ask.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
    ask.buffer = buffer.buffer_;
    buffer.address_ = device_->functions().vkGetBufferDeviceAddress(device_->handle(), &ask);
    if (buffer.address_ == 0 || buffer.address_ % alignment != 0) {
        return internal_error(fmt::format("the driver gave buffer \"{}\" the address {:#x}; a multiple of {} is needed",
                                          buffer.name_, buffer.address_, alignment));
    }
    device_->set_name(VK_OBJECT_TYPE_BUFFER, reinterpret_cast<uint64_t>(buffer.buffer_), buffer.name_);
    if (options_.poison && buffer.mapped_) {
        std::memset(buffer.mapped_, 0xFF, static_cast<std::size_t>(with_guard));
        HK_TRY(buffer.flush(0, bytes));
    }
    return buffer;
}

MemoryUsage Memory::usage() const {
    MemoryUsage usage;
    {
        const std::lock_guard guard(mutex_);
        usage.current_bytes = current_;
        usage.peak_bytes = peak_;
        usage.cap_bytes = options_.cap_bytes;
        usage.buffers = buffers_;
    }
    if (!device_->capabilities().memory_budget) return usage;
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

void Memory::reset_peak() {
    const std::lock_guard guard(mutex_);
    peak_ = current_;
}

Buffer Buffer::borrow(VkBuffer buffer, VkDeviceAddress address, uint64_t bytes, std::string name) {
    Buffer borrowed;
    borrowed.buffer_ = buffer;
    borrowed.address_ = address;
    borrowed.bytes_ = bytes;
    borrowed.name_ = std::move(name);
    return borrowed;
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    release();
    memory_ = std::move(other.memory_);
    buffer_ = std::exchange(other.buffer_, VK_NULL_HANDLE);
    allocation_ = std::exchange(other.allocation_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    counted_bytes_ = std::exchange(other.counted_bytes_, 0);
    address_ = std::exchange(other.address_, 0);
    mapped_ = std::exchange(other.mapped_, nullptr);
    residence_ = other.residence_;
    name_ = std::move(other.name_);
    return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
    if (!memory_) return;
    vmaDestroyBuffer(memory_->allocator_, buffer_, allocation_);
    memory_->give_back(counted_bytes_);
    buffer_ = VK_NULL_HANDLE;
    allocation_ = nullptr;
    memory_.reset();
}

Status Buffer::flush(uint64_t offset, uint64_t bytes) const {
    if (!mapped_ || offset > bytes_ || bytes > bytes_ - offset) {
        return internal_error(
            fmt::format("flush of [{}, +{}) in buffer \"{}\" of {} bytes", offset, bytes, name_, bytes_));
    }
    if (bytes == 0) return {};
    return memory_->device()->check(vmaFlushAllocation(memory_->allocator_, allocation_, offset, bytes),
                                    "vkFlushMappedMemoryRanges");
}

Status Buffer::invalidate(uint64_t offset, uint64_t bytes) const {
    if (!mapped_ || offset > bytes_ || bytes > bytes_ - offset) {
        return internal_error(
            fmt::format("invalidate of [{}, +{}) in buffer \"{}\" of {} bytes", offset, bytes, name_, bytes_));
    }
    if (bytes == 0) return {};
    return memory_->device()->check(vmaInvalidateAllocation(memory_->allocator_, allocation_, offset, bytes),
                                    "vkInvalidateMappedMemoryRanges");
}

} // namespace hekla::gpu
