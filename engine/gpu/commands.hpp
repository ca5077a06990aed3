// Records dispatches, barriers, copies, fills and timestamps into command buffers.
//
// The dispatch convention (the shader's side is in shaders/group.glsl). A kernel sees a *linear* number of workgroups
// and decides itself what the i-th computes (which tile of M and N, which row, which batch). The host folds the count
// into the three dimensions of vkCmdDispatch, each at most Capabilities::max_groups:
//     i = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z)
// Folding may add a few groups past the end; a kernel returns immediately when i >= the count in its argument record
// (and its addresses are inside their buffers in any case). A record's group offset is added to i, so that one dispatch
// can be split into several with separate records.
#pragma once

#include "gpu/memory.hpp"
#include "gpu/pipeline.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hekla::gpu {

class Timer;

// Returns at least `groups` workgroups as three dimensions within `limits`, with fewer than y + z groups too many.
// invalid_argument if the product of the limits is too small, or groups is 0.
Result<std::array<uint32_t, 3>> fold_groups(uint64_t groups, const std::array<uint32_t, 3>& limits);

// A recorded command, for an ordering check that does not rely on the recorder. Kept only on request.
struct RecordedCommand {
    enum class Kind : int32_t { dispatch, barrier, copy, fill, update, timestamp };
    Kind kind = Kind::dispatch;
    uint64_t tag = 0;                      // dispatch: the caller's number for it
    const Pipeline* pipeline = nullptr;    // dispatch
    VkDeviceAddress arguments = 0;         // dispatch
    std::array<uint32_t, 3> groups{};      // dispatch
    VkDeviceAddress source = 0;            // copy
    VkDeviceAddress destination = 0;       // copy, fill, update
    uint64_t bytes = 0;                    // copy, fill, update
    VkPipelineStageFlags2 from_stages = 0; // barrier, as are the following members
    VkAccessFlags2 from_access = 0;
    VkPipelineStageFlags2 to_stages = 0;
    VkAccessFlags2 to_access = 0;
};

enum class Level : int32_t { primary = 0, secondary = 1 };

class CommandPool;

// A VkCommandBuffer. Recorded by one thread at a time; the first error is kept and end() reports it.
class CommandBuffer {
public:
    CommandBuffer() = default;
    CommandBuffer(CommandBuffer&& other) noexcept;
    CommandBuffer& operator=(CommandBuffer&& other) noexcept;
    ~CommandBuffer();

    // Borrows a command buffer of the host, which is in the recording state, for execute() and barrier(). begin() and
    // end() are not called on it.
    static CommandBuffer borrow(std::shared_ptr<Device> device, VkCommandBuffer commands);

    // Begins recording, and drops earlier commands. `keep_trace`: keep RecordedCommands. `repeats`: one primary may
    // execute it several times.
    Status begin(bool keep_trace = false, bool repeats = false);
    Status end();

    // `arguments`: the address of the record; `groups`: the number of workgroups (linear, folded here); `tag`: for the
    // trace.
    void dispatch(const Pipeline& pipeline, VkDeviceAddress arguments, uint64_t groups, uint64_t tag = 0);

    // Orders everything before against everything after: compute and transfer, reads and writes. This is the only
    // barrier that a program needs between dependent dispatches.
    void barrier();
    void barrier(VkPipelineStageFlags2 from_stages, VkAccessFlags2 from_access, VkPipelineStageFlags2 to_stages,
                 VkAccessFlags2 to_access);

    // Ranges in bytes, inside the buffers. fill: offset and size multiples of 4.
    void copy(const Buffer& source, uint64_t source_offset, const Buffer& destination, uint64_t destination_offset,
              uint64_t bytes);
    void fill(const Buffer& destination, uint64_t offset, uint64_t bytes, uint32_t word);
    // At most 65,536 bytes, stored in the command buffer itself. Offset and size multiples of 4.
    void update(const Buffer& destination, uint64_t offset, std::span<const std::byte> bytes);

    // Begin and end a label that debuggers show. Do nothing without Device::labels().
    void begin_label(const std::string& name);
    void end_label();

    void reset_timer(Timer& timer);
    void timestamp(Timer& timer, uint32_t slot); // after all commands recorded before it

    // Primary only: runs a finished secondary. Its trace is appended to this one's.
    void execute(const CommandBuffer& secondary);

    VkCommandBuffer handle() const { return commands_; }
    Level level() const { return level_; }
    const std::vector<RecordedCommand>& trace() const { return trace_; }
    uint64_t dispatches() const { return dispatches_; }

private:
    friend class CommandPool;
    void fail(Status status);
    bool recording() const { return recording_ && error_.ok(); }
    void release() noexcept;

    std::shared_ptr<Device> device_;
    std::shared_ptr<CommandPool> pool_; // null when borrowed
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    Level level_ = Level::primary;
    bool recording_ = false;
    bool keep_trace_ = false;
    const Pipeline* bound_ = nullptr;
    uint64_t dispatches_ = 0;
    std::vector<RecordedCommand> trace_;
    Status error_;
};

// Thread: one at a time, including its command buffers (Vulkan's rule). Create one for each thread or recording.
class CommandPool : public std::enable_shared_from_this<CommandPool> {
public:
    static Result<std::shared_ptr<CommandPool>> create(std::shared_ptr<Device> device);
    ~CommandPool();
    CommandPool(const CommandPool&) = delete;
    CommandPool& operator=(const CommandPool&) = delete;

    Result<CommandBuffer> allocate(Level level);
    const std::shared_ptr<Device>& device() const { return device_; }

private:
    friend class CommandBuffer;
    CommandPool() = default;
    std::shared_ptr<Device> device_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
};

} // namespace hekla::gpu
