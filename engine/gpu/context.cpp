#include "gpu/context.hpp"

namespace hekla::gpu {

Result<Context> create_context(const ContextOptions& options) {
    HK_ASSIGN(std::shared_ptr<Device> device, Device::create_own(options.device));
    return create_context(std::move(device), options);
}

Result<Context> create_context(std::shared_ptr<Device> device, const ContextOptions& options) {
    Context context;
    context.device = std::move(device);
    HK_ASSIGN(context.memory, Memory::create(context.device, options.memory));
    HK_ASSIGN(context.queue, Queue::create(context.device));
    HK_ASSIGN(context.staging, Staging::create(context.memory, context.queue));
    HK_ASSIGN(context.pipelines, Pipelines::create(context.device, {options.cache, options.pipeline_cache,
                                                                    options.device.compiler_reports}));
    GlslOptions glsl;
    glsl.log = context.device->log();
    glsl.module = options.glsl_module;
    glsl.cache = options.cache;
    context.glsl = std::make_shared<GlslCompiler>(std::move(glsl));
    return context;
}

} // namespace hekla::gpu
