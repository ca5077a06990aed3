// Compute pipelines. All share one layout: 8 bytes of push constants, the device address of the dispatch's argument
// record. constant_id 31 is 1 in every module on devices with the capability uniform_loads. Each is created once per
// (module, constants, subgroup size) and cached.
#pragma once

#include "base/cache.hpp"
#include "gpu/device.hpp"
#include "gpu/shader.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace hekla::gpu {

struct PipelineDescription {
    Shader shader;                    // entry point "main"
    std::vector<uint32_t> constants;  // the value of constant_id 0, 1, 2, ... (floats as their bits)
    uint32_t subgroup_size = 0;       // required; 0: the driver's choice. Needs subgroup_size_control
    bool full_subgroups = false;      // every subgroup full; workgroup's x must be a multiple of the subgroup size
    uint32_t shared_memory_bytes = 0; // used by the shader with these constants: checked, not passed to Vulkan
};

class Pipeline {
public:
    ~Pipeline();
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;
    VkPipeline handle() const { return pipeline_; }
    VkPipelineLayout layout() const { return layout_; }
    const std::string& name() const { return name_; } // the shader's, for messages and traces
    const std::array<uint32_t, 3>& workgroup() const { return workgroup_; }

private:
    friend class Pipelines;
    Pipeline() = default;
    std::shared_ptr<Device> device_;
    VkPipeline pipeline_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    std::array<uint32_t, 3> workgroup_{};
    std::string name_;
};

struct PipelinesOptions {
    std::shared_ptr<Cache> cache; // null: the driver's cache is neither read nor written
    // The host's own cache, used instead and saved by the host; it outlives the pipelines.
    VkPipelineCache host_cache = VK_NULL_HANDLE;
    // Pipelines keep what the driver's compiler reports about them, if Device::compiler_reports(). No cache is used,
    // because a cached pipeline may have no report.
    bool reports = false;
};

// A cache of pipelines. Thread: any; several may compile at once. Outlives its pipelines.
class Pipelines {
public:
    static Result<std::shared_ptr<Pipelines>> create(std::shared_ptr<Device> device,
                                                     const PipelinesOptions& options = {});
    ~Pipelines(); // does not save
    Pipelines(const Pipelines&) = delete;
    Pipelines& operator=(const Pipelines&) = delete;

    // Returns the pipeline. unsupported, before Vulkan is called, if the device lacks a capability that the module
    // declares, shared memory, the workgroup size or the subgroup size.
    Result<std::shared_ptr<const Pipeline>> get(const PipelineDescription& description);
    // The same for each of several, on `threads` threads at most, this one included.
    std::vector<Result<std::shared_ptr<const Pipeline>>> get(std::span<const PipelineDescription> descriptions,
                                                             unsigned threads);

    // Writes the driver's cache (atomically) if something was compiled since it was read.
    Status save();
    std::size_t count() const;
    uint64_t compiled() const; // number of successful vkCreateComputePipelines
    bool started_from_cache() const { return started_from_cache_; }
    bool reports() const { return options_.reports && device_->compiler_reports(); }

private:
    Pipelines() = default;
    Status check(const PipelineDescription& description, std::array<uint32_t, 3>& workgroup) const;
    Result<std::shared_ptr<Pipeline>> compile(const PipelineDescription& description,
                                              const std::array<uint32_t, 3>& workgroup);
    bool has(const std::string& key) const;
    std::string cache_name() const;
    std::string read_blob() const;

    std::shared_ptr<Device> device_;
    PipelinesOptions options_;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipelineCache cache_ = VK_NULL_HANDLE;
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const Pipeline>> pipelines_;
    uint64_t compiled_ = 0;
    uint64_t saved_ = 0;
    bool started_from_cache_ = false;
};

} // namespace hekla::gpu
