#include "device_test/device_facts.hpp"

#include "base/number_text.hpp"
#include "gpu/capabilities.hpp"
#include "gpu/driver_advice.hpp"
#include "lab/kernel.hpp"
#include "program/lowering/half.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
std::string version_text(uint32_t version) {
    return fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                       VK_API_VERSION_PATCH(version));
}

report::Line facts_of(const gpu::Capabilities& c) {
    report::Line features = report::Line::array(), shapes = report::Line::array();
    for (const std::string_view bit : gpu::capability_names())
        if (const bool* has = gpu::find_capability(c, bit); has != nullptr && *has) features.push_back(bit);
    for (const gpu::MatrixShape& shape : c.matrix_shapes)
        if (shape.a != gpu::ComponentType::other)
            shapes.push_back(fmt::format("{}x{}x{} {} {}", shape.m, shape.n, shape.k, lab::component_name(shape.a),
                                         lab::component_name(shape.result)));
    return {{"name", c.device_name},
            {"driver", c.driver_name},
            {"driver_info", c.driver_info},
            {"vulkan", version_text(c.api_version)},
            {"type", gpu::device_type_name(c.type)},
            {"vendor_id", c.vendor_id},
            {"device_id", c.device_id},
            {"memory_bytes", c.device_memory_bytes},
            {"allocation_bytes", c.max_allocation_bytes},
            {"cores", c.cores},
            {"subgroup", {c.subgroup_size, c.min_subgroup_size, c.max_subgroup_size}},
            {"shared_bytes", c.shared_memory_bytes},
            {"invocations", c.max_workgroup_invocations},
            {"features", features},
            {"not_used", c.taken_away},
            {"matrix_shapes", shapes}};
}

Result<StageOutcome> device_stage(const StageInput& input) {
    choose_vector_width();
    StageOutcome outcome;
    const gpu::ContextOptions options = context_options(input.globals);
    HK_ASSIGN(const std::vector<gpu::DeviceInfo> listed, gpu::Device::list(options.device));
    report::Line devices = report::Line::array();
    for (const gpu::DeviceInfo& one : listed) {
        devices.push_back({{"name", one.name},
                           {"type", gpu::device_type_name(one.type)},
                           {"driver", one.driver},
                           {"vulkan", version_text(one.api_version)},
                           {"usable", one.usable}});
        if (!one.usable) devices.back()["why_not"] = one.why_not;
    }
    outcome.result["devices"] = devices;
    if (listed.empty()) {
        outcome.problem = fmt::format("Vulkan lists no device: {}", gpu::driver_advice());
        return outcome;
    }
    const auto runtime = stage_runtime(input);
    if (!runtime.ok()) {
        outcome.problem = runtime.message();
        return outcome;
    }
    const gpu::Capabilities& c = runtime.value()->gpu().capabilities();
    report::Line facts = facts_of(c);
    const program::Limits& limits = runtime.value()->device_limits();
    report::Line units = report::Line::array();
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16})
        if (limits.matrix_unit(storage)) units.push_back(program::storage_name(storage));
    facts["matrix_kernels"] = units;
    outcome.result["device"] = facts;
    outcome.text =
        fmt::format("{}, {} {}, Vulkan {}, {}, {} cores, matrix units: {}", c.device_name, c.driver_name, c.driver_info,
                    version_text(c.api_version), size_text(c.device_memory_bytes), c.cores,
                    units.empty() ? "none" : fmt::format("{}", fmt::join(units.get<std::vector<std::string>>(), ", ")));
    return outcome;
}

std::vector<program::Storage> precisions_of(const program::Runtime& runtime) {
    if (!runtime.device_limits().storage16) return {program::Storage::f32};
    return {program::Storage::f32, program::Storage::f16, program::Storage::bf16};
}

Result<std::unique_ptr<program::Runtime>> stage_runtime(const StageInput& input, program::RuntimeOptions options) {
    choose_vector_width();
    HK_ASSIGN(gpu::Context context, gpu::create_context(context_options(input.globals)));
    return runtime_on(input.globals, std::move(context), options);
}

} // namespace hekla::app
