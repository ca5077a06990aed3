// The GPU objects that the rest of the engine needs, created together.
#pragma once

#include "gpu/device.hpp"
#include "gpu/glsl.hpp"
#include "gpu/memory.hpp"
#include "gpu/pipeline.hpp"
#include "gpu/staging.hpp"
#include "gpu/submit.hpp"
#include "gpu/timer.hpp"

#include <filesystem>
#include <memory>

namespace hekla::gpu {

struct ContextOptions {
    DeviceOptions device;
    MemoryOptions memory;
    std::shared_ptr<Cache> cache;                    // compiled shaders and pipelines; null: in memory only
    VkPipelineCache pipeline_cache = VK_NULL_HANDLE; // see PipelinesOptions::host_cache
    std::filesystem::path glsl_module;               // see GlslOptions
};

struct Context {
    std::shared_ptr<Device> device;
    std::shared_ptr<Memory> memory;
    std::shared_ptr<Queue> queue;
    std::shared_ptr<Staging> staging;
    std::shared_ptr<Pipelines> pipelines;
    std::shared_ptr<GlslCompiler> glsl;

    const Capabilities& capabilities() const { return device->capabilities(); }
};

Result<Context> create_context(const ContextOptions& options = {});
Result<Context> create_context(std::shared_ptr<Device> device, const ContextOptions& options = {});

} // namespace hekla::gpu
