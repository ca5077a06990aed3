#include "gpu/commands.hpp"

#include "gpu/result.hpp"
#include "gpu/timer.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::gpu {

namespace {

constexpr VkPipelineStageFlags2 kAllStages =
    VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
constexpr VkAccessFlags2 kAllWrites = VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT;
constexpr VkAccessFlags2 kAllAccess = kAllWrites | VK_ACCESS_2_SHADER_STORAGE_READ_BIT | VK_ACCESS_2_TRANSFER_READ_BIT;

bool inside(const Buffer& buffer, uint64_t offset, uint64_t bytes) {
    return offset <= buffer.bytes() && bytes <= buffer.bytes() - offset;
}

} // namespace

Result<std::array<uint32_t, 3>> fold_groups(uint64_t groups, const std::array<uint32_t, 3>& limits) {
    const auto impossible = [&] {
        return invalid_argument(fmt::format("{} workgroups cannot be dispatched: 1 to {} x {} x {} can", groups,
                                            limits[0], limits[1], limits[2]));
    };
    const auto divide = [](uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); };
    if (groups == 0 || limits[0] == 0 || limits[1] == 0 || limits[2] == 0) return impossible();
    // As few slices as the limits allow, then the smallest sufficient x: at most slices - 1 groups are too many.
    const uint64_t slices = divide(groups, limits[0]);
    const uint64_t z = divide(slices, limits[1]);
    if (z > limits[2]) return impossible();
    const uint64_t y = divide(slices, z);
    const uint64_t x = divide(groups, y * z);
    return std::array<uint32_t, 3>{static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
}

CommandBuffer::CommandBuffer(CommandBuffer&& other) noexcept { *this = std::move(other); }

CommandBuffer& CommandBuffer::operator=(CommandBuffer&& other) noexcept {
    if (this == &other) return *this;
    release();
    device_ = std::move(other.device_);
    pool_ = std::move(other.pool_);
    commands_ = std::exchange(other.commands_, VK_NULL_HANDLE);
    level_ = other.level_;
    recording_ = std::exchange(other.recording_, false);
    keep_trace_ = other.keep_trace_;
    bound_ = std::exchange(other.bound_, nullptr);
    dispatches_ = other.dispatches_;
    trace_ = std::move(other.trace_);
    error_ = std::move(other.error_);
    return *this;
}

CommandBuffer::~CommandBuffer() { release(); }

void CommandBuffer::release() noexcept {
    if (pool_ && commands_)
        pool_->device_->functions().vkFreeCommandBuffers(pool_->device_->handle(), pool_->pool_, 1, &commands_);
    commands_ = VK_NULL_HANDLE;
    pool_.reset();
}

CommandBuffer CommandBuffer::borrow(std::shared_ptr<Device> device, VkCommandBuffer commands) {
    CommandBuffer borrowed;
    borrowed.device_ = std::move(device);
    borrowed.commands_ = commands;
    borrowed.level_ = Level::primary;
    borrowed.recording_ = true;
    return borrowed;
}

void CommandBuffer::fail(Status status) {
    if (error_.ok()) error_ = std::move(status);
}

Status CommandBuffer::begin(bool keep_trace, bool repeats) {
    if (!pool_) return failed_precondition("begin on a command buffer that is not ours");
    HK_TRY(device_->alive());
    error_ = {};
    recording_ = false;
    bound_ = nullptr;
    dispatches_ = 0;
    trace_.clear();
    keep_trace_ = keep_trace;
    VkCommandBufferInheritanceInfo inheritance{};
    inheritance.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO;
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    if (level_ == Level::secondary) begin.pInheritanceInfo = &inheritance;
    if (repeats) begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    HK_TRY(device_->check(device_->functions().vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer"));
    recording_ = true;
    return {};
}

Status CommandBuffer::end() {
    if (!recording_) return failed_precondition("end of a command buffer that was not begun");
    if (!pool_) return error_; // only the host ends a borrowed one
    recording_ = false;
    Status ended = device_->check(device_->functions().vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
    if (!error_.ok()) return error_;
    return ended;
}

void CommandBuffer::dispatch(const Pipeline& pipeline, VkDeviceAddress arguments, uint64_t groups, uint64_t tag) {
    if (!recording()) return;
    const Functions& f = device_->functions();
    const auto folded = fold_groups(groups, device_->capabilities().max_groups);
    if (!folded.ok()) return fail(folded.status().with_context(pipeline.name()));
    const std::array<uint32_t, 3>& g = folded.value();
    if (bound_ != &pipeline) {
        f.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle());
        bound_ = &pipeline;
    }
    f.vkCmdPushConstants(commands_, pipeline.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof arguments, &arguments);
    f.vkCmdDispatch(commands_, g[0], g[1], g[2]);
    dispatches_ += 1;
    if (!keep_trace_) return;
    RecordedCommand& command = trace_.emplace_back();
    command.kind = RecordedCommand::Kind::dispatch;
    command.tag = tag;
    command.pipeline = &pipeline;
    command.arguments = arguments;
    command.groups = g;
}

void CommandBuffer::barrier() { barrier(kAllStages, kAllWrites, kAllStages, kAllAccess); }

void CommandBuffer::barrier(VkPipelineStageFlags2 from_stages, VkAccessFlags2 from_access,
                            VkPipelineStageFlags2 to_stages, VkAccessFlags2 to_access) {
    if (!recording()) return;
    VkMemoryBarrier2 memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2;
    memory.srcStageMask = from_stages;
    memory.srcAccessMask = from_access;
    memory.dstStageMask = to_stages;
    memory.dstAccessMask = to_access;
    VkDependencyInfo dependency{};
    dependency.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO;
    dependency.memoryBarrierCount = 1;
    dependency.pMemoryBarriers = &memory;
    device_->functions().vkCmdPipelineBarrier2(commands_, &dependency);
    if (!keep_trace_) return;
    RecordedCommand& command = trace_.emplace_back();
    command.kind = RecordedCommand::Kind::barrier;
    command.from_stages = from_stages;
    command.from_access = from_access;
    command.to_stages = to_stages;
    command.to_access = to_access;
}

void CommandBuffer::copy(const Buffer& source, uint64_t source_offset, const Buffer& destination,
                         uint64_t destination_offset, uint64_t bytes) {
    if (!recording()) return;
    if (bytes == 0) return;
    if (!inside(source, source_offset, bytes) || !inside(destination, destination_offset, bytes))
        return fail(
            internal_error(fmt::format("copy of {} bytes from {} of \"{}\" ({} bytes) to {} of \"{}\" ({} bytes) "
                                       "leaves a buffer",
                                       bytes, source_offset, source.name(), source.bytes(), destination_offset,
                                       destination.name(), destination.bytes())));
    const VkBufferCopy region{source_offset, destination_offset, bytes};
    device_->functions().vkCmdCopyBuffer(commands_, source.handle(), destination.handle(), 1, &region);
    if (!keep_trace_) return;
    RecordedCommand& command = trace_.emplace_back();
    command.kind = RecordedCommand::Kind::copy;
    command.source = source.address() + source_offset;
    command.destination = destination.address() + destination_offset;
    command.bytes = bytes;
}

void CommandBuffer::fill(const Buffer& destination, uint64_t offset, uint64_t bytes, uint32_t word) {
    if (!recording()) return;
    if (bytes == 0) return;
    if (!inside(destination, offset, bytes) || offset % 4 != 0 || bytes % 4 != 0)
        return fail(
            internal_error(fmt::format("fill of {} bytes at {} of \"{}\" ({} bytes): inside it, in multiples of 4",
                                       bytes, offset, destination.name(), destination.bytes())));
    device_->functions().vkCmdFillBuffer(commands_, destination.handle(), offset, bytes, word);
    if (!keep_trace_) return;
    RecordedCommand& command = trace_.emplace_back();
    command.kind = RecordedCommand::Kind::fill;
    command.destination = destination.address() + offset;
    command.bytes = bytes;
}

void CommandBuffer::update(const Buffer& destination, uint64_t offset, std::span<const std::byte> bytes) {
    if (!recording()) return;
    if (bytes.empty()) return;
    if (!inside(destination, offset, bytes.size()) || offset % 4 != 0 || bytes.size() % 4 != 0 ||
        bytes.size() > 65536) {
        return fail(
            internal_error(fmt::format("update of {} bytes at {} of \"{}\" ({} bytes): inside it, in multiples of "
                                       "4, at most 65536",
                                       bytes.size(), offset, destination.name(), destination.bytes())));
    }
    device_->functions().vkCmdUpdateBuffer(commands_, destination.handle(), offset, bytes.size(), bytes.data());
    if (!keep_trace_) return;
    RecordedCommand& command = trace_.emplace_back();
    command.kind = RecordedCommand::Kind::update;
    command.destination = destination.address() + offset;
    command.bytes = bytes.size();
}

void CommandBuffer::begin_label(const std::string& name) {
    if (!recording() || !device_->labels()) return;
    VkDebugUtilsLabelEXT label{};
    label.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT;
    label.pLabelName = name.c_str();
    device_->functions().vkCmdBeginDebugUtilsLabelEXT(commands_, &label);
}

void CommandBuffer::end_label() {
    if (recording() && device_->labels()) device_->functions().vkCmdEndDebugUtilsLabelEXT(commands_);
}

void CommandBuffer::reset_timer(Timer& timer) {
    if (!recording()) return;
    device_->functions().vkCmdResetQueryPool(commands_, timer.handle(), 0, timer.slots());
}

void CommandBuffer::timestamp(Timer& timer, uint32_t slot) {
    if (!recording()) return;
    if (slot >= timer.slots())
        return fail(internal_error(fmt::format("timestamp slot {} of a timer of {}", slot, timer.slots())));
    device_->functions().vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timer.handle(), slot);
    if (!keep_trace_) return;
    RecordedCommand& command = trace_.emplace_back();
    command.kind = RecordedCommand::Kind::timestamp;
    command.tag = slot;
}

void CommandBuffer::execute(const CommandBuffer& secondary) {
    if (!recording()) return;
    if (level_ != Level::primary || secondary.level_ != Level::secondary || secondary.recording_ ||
        !secondary.commands_ || !secondary.error_.ok()) {
        return fail(
            internal_error("execute needs a primary that is being recorded and a secondary that was ended well"));
    }
    device_->functions().vkCmdExecuteCommands(commands_, 1, &secondary.commands_);
    bound_ = nullptr; // a secondary does not preserve the bound state
    dispatches_ += secondary.dispatches_;
    if (keep_trace_) trace_.insert(trace_.end(), secondary.trace_.begin(), secondary.trace_.end());
}

Result<std::shared_ptr<CommandPool>> CommandPool::create(std::shared_ptr<Device> device) {
    HK_TRY(device->alive());
    auto pool = std::shared_ptr<CommandPool>(new CommandPool);
    pool->device_ = std::move(device);
    const Device& d = *pool->device_;
    VkCommandPoolCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    create.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    create.queueFamilyIndex = d.queue_family();
    // Allocation failures while recording cannot be reported, because recording has no result, and Mesa's CPU driver
    // (25.0) then writes to null. Therefore tables use table_callbacks().
    HK_TRY(d.check(d.functions().vkCreateCommandPool(d.handle(), &create, d.table_callbacks(), &pool->pool_),
                   "vkCreateCommandPool"));
    return pool;
}

CommandPool::~CommandPool() {
    if (pool_) device_->functions().vkDestroyCommandPool(device_->handle(), pool_, device_->table_callbacks());
}

Result<CommandBuffer> CommandPool::allocate(Level level) {
    HK_TRY(device_->alive());
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool_;
    allocate.level = level == Level::primary ? VK_COMMAND_BUFFER_LEVEL_PRIMARY : VK_COMMAND_BUFFER_LEVEL_SECONDARY;
    allocate.commandBufferCount = 1;
    CommandBuffer commands;
    HK_TRY(
        device_->check(device_->functions().vkAllocateCommandBuffers(device_->handle(), &allocate, &commands.commands_),
                       "vkAllocateCommandBuffers"));
    commands.device_ = device_;
    commands.pool_ = shared_from_this();
    commands.level_ = level;
    return commands;
}

} // namespace hekla::gpu
