#include "program/runtime.hpp"

#include "gpu/eviction.hpp"
#include "kernels_shaders.hpp"
#include "program/compiler_spills.hpp"
#include "program/speed.hpp"
#include "program/tuning.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

namespace hekla::program {

namespace {

// Returns the largest matrix multiplication of the device with sides of 8 or 16, sums in float32.
MatrixUnit matrix_unit(const gpu::Capabilities& device, gpu::ComponentType factors) {
    using enum gpu::ComponentType;
    const auto side = [](uint32_t size) { return size == 8 || size == 16; };
    MatrixUnit largest;
    for (const gpu::MatrixShape& shape : device.matrix_shapes)
        if (shape.a == factors && shape.b == factors && shape.c == float32 && shape.result == float32 &&
            side(shape.m) && side(shape.n) && side(shape.k) &&
            shape.m * shape.n * shape.k > largest.m * largest.n * largest.k)
            largest = {shape.m, shape.n, shape.k};
    return largest;
}

} // namespace

Result<std::unique_ptr<Runtime>> Runtime::create(gpu::Context context, const RuntimeOptions& options) {
    std::unique_ptr<Runtime> runtime(new Runtime);
    runtime->gpu_ = std::move(context);
    runtime->options_ = options;
    const gpu::Capabilities& device = runtime->gpu_.capabilities();
    if (const std::vector<std::string> missing = gpu::missing_capabilities(device); !missing.empty())
        return unsupported(fmt::format("{} cannot be used: it lacks {}", device.device_name, fmt::join(missing, ", ")));
    Limits& limits = runtime->device_limits_;
    limits.subgroup_size = device.subgroup_size;
    if (device.subgroup_size_control) {
        limits.min_subgroup_size = device.min_subgroup_size;
        limits.max_subgroup_size = device.max_subgroup_size;
        limits.max_subgroups = device.max_subgroups_per_workgroup;
    }
    limits.max_group_invocations = device.max_workgroup_invocations;
    limits.shared_memory = device.shared_memory_bytes;
    if (device.cores > 0)
        limits.cores = device.cores;
    else if (device.type == gpu::DeviceType::integrated)
        limits.cores = 16;
    limits.storage16 = device.storage_16bit;
    // The kernels for CPUs are unrolled.
    limits.cpu = device.type == gpu::DeviceType::cpu && device.long_kernels && !options.kernels_of_gpus;
    limits.uniform_loads = device.uniform_loads;
    limits.long_kernels = device.long_kernels;
    limits.many_registers = device.many_registers;
    limits.registers_at_any_width = device.registers_at_any_width;
    limits.large_register_file = device.large_register_file;
    limits.generated_shaders = options.generated_shaders;
    limits.compiles_slowly = device.type == gpu::DeviceType::cpu && !limits.cpu;

    HK_ASSIGN(runtime->tuning_, Tuning::create(device, options.cache, runtime->gpu_.device->log()));
    RuntimeOptions& own = runtime->options_;
    if (own.kernels.empty()) own.kernels = embedded::kernels();
    if (!limits.cpu) {
        HK_ASSIGN(runtime->spills_,
                  CompilerSpills::create(runtime->gpu_, own.kernels, runtime->tuning_->identity(), own.cache));
        limits.spills = runtime->spills_;
    }
    if (own.measure_kernels == Measure::on_gpus) own.measure_kernels = limits.cpu ? Measure::never : Measure::always;
    const auto built = [&](std::string_view name) {
        return std::ranges::find(own.kernels, name, &gpu::EmbeddedShader::name) != own.kernels.end();
    };
    if (built("matmul/matrix.t128_f16") && device.float16 && device.storage_16bit)
        limits.matrix_f16 = matrix_unit(device, gpu::ComponentType::float16);
    if (built("matmul/matrix.t128_bf16") && device.bfloat16_cooperative_matrix && device.storage_16bit)
        limits.matrix_bf16 = matrix_unit(device, gpu::ComponentType::bfloat16);
    limits.matrix_elements = device.cooperative_matrix_elements && built("attention/matrix_forward.f16_elements") &&
                             (!limits.matrix_bf16 || built("attention/matrix_forward.bf16_elements"));
    if (own.compile_threads == 0)
        own.compile_threads = runtime->gpu_.device->owned() ? std::max(1u, std::thread::hardware_concurrency()) : 1;
    if (own.budget_seconds <= 0) own.budget_seconds = submit_seconds(limits.cpu, device.display);
    if (own.segment_seconds <= 0) own.segment_seconds = segment_seconds(own.budget_seconds);
    const uint64_t most = runtime->gpu_.memory->max_buffer_bytes();
    own.max_block_bytes = own.max_block_bytes == 0 ? most : std::min(own.max_block_bytes, most);
    return runtime;
}

Runtime::~Runtime() {
    if (spills_) spills_->close(); // Limits that others have copied may remain
    // Blocks must not be freed while commands that use them are pending. Errors were reported where the commands were
    // waited for.
    if (gpu_.queue) gpu_.queue->settle_after(gpu_.queue->wait_all());
}

const Limits& Runtime::limits() const {
    if (!limits_) {
        limits_ = device_limits_;
        if (limits_->generated_shaders && gpu_.glsl) {
            const Status compiler = gpu_.glsl->available();
            limits_->generated_shaders = compiler.ok();
            if (!compiler.ok())
                gpu_.device->log().info("chains of elementwise operations run as one kernel each, which is slower: " +
                                        compiler.message());
        } else {
            limits_->generated_shaders = false;
        }
    }
    return *limits_;
}

Limits Runtime::limits(const CompiledKernels* kernels) const {
    if (kernels == nullptr) return limits();
    Limits limits = device_limits_;
    limits.chains = false;
    return limits;
}

Status Runtime::reserve_arena(std::span<const uint64_t> sizes) {
    return arena_.reserve(sizes, *gpu_.memory, *gpu_.queue);
}

Result<gpu::Shader> Runtime::shader(const Dispatch& dispatch, const CompiledKernels* kernels) {
    if (kernels != nullptr && !dispatch.source.empty()) {
        if (const auto known = kernels->shaders.find(dispatch.shader); known != kernels->shaders.end())
            return known->second;
        return not_found(fmt::format("no kernel \"{}\": {}", dispatch.shader, kernels->missing));
    }
    if (const auto known = shaders_.find(dispatch.shader); known != shaders_.end()) return known->second;
    gpu::Shader shader;
    if (dispatch.words != nullptr) {
        HK_ASSIGN(shader, gpu::Shader::from_words(dispatch.shader, *dispatch.words));
    } else if (dispatch.source.empty()) {
        HK_ASSIGN(shader, gpu::Shader::find(options_.kernels, dispatch.shader));
    } else if (gpu_.glsl == nullptr) {
        return unsupported(fmt::format("shader \"{}\" needs a compiler for GLSL, and this runtime was made without one",
                                       dispatch.shader));
    } else {
        HK_ASSIGN(shader, gpu_.glsl->compile(dispatch.shader, dispatch.source));
    }
    // What every device supports: an operation that needs more would run on some devices only.
    constexpr uint64_t kMostShared = 16384;
    if (dispatch.shader.starts_with("own:") && shader.shared_bytes() > kMostShared)
        return unsupported(
            fmt::format("its workgroups use {} bytes of shared memory; at most {} are possible: make its "
                        "`shared` arrays smaller",
                        shader.shared_bytes(), kMostShared));
    shaders_.emplace(dispatch.shader, shader);
    return shader;
}

Result<gpu::PipelineDescription> Runtime::description(const Dispatch& dispatch, const CompiledKernels* kernels) {
    gpu::PipelineDescription description;
    HK_ASSIGN(description.shader, shader(dispatch, kernels));
    description.constants = dispatch.constants;
    description.subgroup_size = dispatch.subgroup_size;
    return description;
}

Result<std::shared_ptr<const gpu::Pipeline>> Runtime::pipeline(const Dispatch& dispatch,
                                                               const CompiledKernels* kernels) {
    HK_ASSIGN(const gpu::PipelineDescription described, description(dispatch, kernels));
    return gpu_.pipelines->get(described);
}

std::vector<Result<std::shared_ptr<const gpu::Pipeline>>> Runtime::pipelines(std::span<const Dispatch> dispatches,
                                                                             const CompiledKernels* kernels) {
    std::vector<Result<std::shared_ptr<const gpu::Pipeline>>> results(dispatches.size(),
                                                                      std::shared_ptr<const gpu::Pipeline>());
    std::vector<gpu::PipelineDescription> descriptions; // of the dispatches whose shader was found
    for (std::size_t d = 0; d < dispatches.size(); ++d) {
        auto described = description(dispatches[d], kernels);
        if (described.ok())
            descriptions.push_back(described.take());
        else
            results[d] = described.status();
    }
    auto made = gpu_.pipelines->get(descriptions, options_.compile_threads);
    auto next = made.begin();
    for (auto& result : results)
        if (result.ok()) result = std::move(*next++);
    return results;
}

Status Runtime::evict_device_memory() {
    Status gone;
    for (const auto& [store, hooks] : sharing_)
        if (gone.ok()) gone = hooks.evict();
    if (gone.ok()) gone = gpu::evict(*gpu_.memory, gpu_.queue);
    if (gone.ok()) return {};
    for (const auto& [store, hooks] : sharing_)
        if (const Status awake = hooks.restore(); !awake.ok())
            return internal_error(fmt::format("device memory could not be evicted ({}), and shared weights that had "
                                              "been could not be restored ({})",
                                              gone.message(), awake.message()));
    return gone;
}

Status Runtime::restore_device_memory() {
    Status back = gpu::restore(*gpu_.memory, gpu_.queue, [&]() -> Status {
        for (const auto& [store, hooks] : sharing_) HK_TRY(hooks.restore());
        // Separate memory and staging, because a thread that waits in the runtime's own staging holds its lock.
        HK_ASSIGN(const std::shared_ptr<gpu::Memory> separate, gpu::Memory::create_separate(*gpu_.memory));
        HK_ASSIGN(const std::shared_ptr<gpu::Staging> staging,
                  gpu::Staging::create(separate, gpu_.queue, uint64_t{1} << 20));
        for (const auto& [program, hooks] : programs_) HK_TRY(hooks.renew(*staging));
        return {};
    });
    if (back.ok()) return {};
    for (const auto& [store, hooks] : sharing_)
        if (const Status asleep = hooks.evict(); !asleep.ok())
            gpu_.device->log().warning("shared weights stay on the device: " + asleep.message());
    return back;
}

Result<bool> Runtime::resplit() {
    bool any = false;
    for (const auto& [program, hooks] : programs_) {
        HK_ASSIGN(const bool cut, hooks.resplit());
        any = any || cut;
    }
    return any;
}

Status Runtime::save_caches() {
    HK_TRY(tuning_->save());
    if (spills_) HK_TRY(spills_->save());
    return gpu_.pipelines->save();
}

} // namespace hekla::program
