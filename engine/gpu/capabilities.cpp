#include "gpu/capabilities.hpp"

#include "base/nearest_name.hpp"
#include "gpu/display.hpp"
#include "gpu/enumerate.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::gpu {

namespace {

struct Bit {
    std::string_view name;
    bool Capabilities::*bit;
};

constexpr Bit kBits[] = {
    {"storage_16bit", &Capabilities::storage_16bit},
    {"storage_8bit", &Capabilities::storage_8bit},
    {"float16", &Capabilities::float16},
    {"int64", &Capabilities::int64},
    {"int16", &Capabilities::int16},
    {"int8", &Capabilities::int8},
    {"float64", &Capabilities::float64},
    {"bfloat16", &Capabilities::bfloat16},
    {"integer_dot_product", &Capabilities::integer_dot_product},
    {"cooperative_matrix", &Capabilities::cooperative_matrix},
    {"bfloat16_cooperative_matrix", &Capabilities::bfloat16_cooperative_matrix},
    {"cooperative_matrix_elements", &Capabilities::cooperative_matrix_elements},
    {"cooperative_matrix_workgroups", &Capabilities::cooperative_matrix_workgroups},
    {"subgroup_clock", &Capabilities::subgroup_clock},
    {"spirv_1_6", &Capabilities::spirv_1_6},
    {"subgroup_size_control", &Capabilities::subgroup_size_control},
    {"full_subgroups", &Capabilities::full_subgroups},
    {"subgroup_arithmetic", &Capabilities::subgroup_arithmetic},
    {"subgroup_shuffle", &Capabilities::subgroup_shuffle},
    {"subgroup_ballot", &Capabilities::subgroup_ballot},
    {"subgroup_extended_types", &Capabilities::subgroup_extended_types},
    {"memory_model", &Capabilities::memory_model},
    {"uniform_loads", &Capabilities::uniform_loads},
    {"long_kernels", &Capabilities::long_kernels},
    {"many_registers", &Capabilities::many_registers},
    {"registers_at_any_width", &Capabilities::registers_at_any_width},
    {"large_register_file", &Capabilities::large_register_file},
    {"timestamps", &Capabilities::timestamps},
    {"memory_budget", &Capabilities::memory_budget},
    {"mapped_device_memory", &Capabilities::mapped_device_memory},
};

const Bit* find_bit(std::string_view name) {
    const auto* found = std::ranges::find(kBits, name, &Bit::name);
    return found == std::end(kBits) ? nullptr : found;
}

DeviceType to_type(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return DeviceType::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return DeviceType::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return DeviceType::virtual_gpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return DeviceType::cpu;
    default: return DeviceType::other;
    }
}

ComponentType to_component(VkComponentTypeKHR type) {
    if (type == VK_COMPONENT_TYPE_FLOAT16_KHR) return ComponentType::float16;
    if (type == VK_COMPONENT_TYPE_FLOAT32_KHR) return ComponentType::float32;
    if (type == VK_COMPONENT_TYPE_BFLOAT16_KHR) return ComponentType::bfloat16;
    return ComponentType::other;
}

// Returns whether all operands are floating-point; the engine does not use others.
bool is_of_floats(const MatrixShape& shape) {
    const ComponentType types[] = {shape.a, shape.b, shape.c, shape.result};
    return std::ranges::find(types, ComponentType::other) == std::end(types);
}

template<std::size_t n>
std::string text_of(const char (&characters)[n]) {
    return {characters, strnlen(characters, n)};
}

// Queries shapes at subgroup scope with floating-point operands.
Status query_matrix_shapes(const Functions& functions, VkPhysicalDevice physical, Capabilities& capabilities) {
    if (!functions.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR) {
        capabilities.cooperative_matrix = false;
        return {};
    }
    VkCooperativeMatrixPropertiesKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    HK_ASSIGN(const std::vector<VkCooperativeMatrixPropertiesKHR> properties,
              enumerate<VkCooperativeMatrixPropertiesKHR>(
                  "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
                  [&](uint32_t* count, VkCooperativeMatrixPropertiesKHR* to) {
                      return functions.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(physical, count, to);
                  },
                  empty));
    for (const VkCooperativeMatrixPropertiesKHR& p : properties) {
        MatrixShape shape{p.MSize,
                          p.NSize,
                          p.KSize,
                          to_component(p.AType),
                          to_component(p.BType),
                          to_component(p.CType),
                          to_component(p.ResultType)};
        if (p.scope == VK_SCOPE_SUBGROUP_KHR && is_of_floats(shape)) capabilities.matrix_shapes.push_back(shape);
    }
    if (capabilities.matrix_shapes.empty()) capabilities.cooperative_matrix = false;
    return {};
}

// Queries what matrices of a workgroup are possible, with floating-point operands.
Status query_workgroup_matrices(const Functions& functions, VkPhysicalDevice physical, Capabilities& capabilities) {
    const auto query = functions.vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV;
    if (query != nullptr) {
        VkPhysicalDeviceCooperativeMatrix2PropertiesNV matrix2{};
        matrix2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV;
        VkPhysicalDeviceProperties2 all{};
        all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
        all.pNext = &matrix2;
        functions.vkGetPhysicalDeviceProperties2(physical, &all);
        capabilities.workgroup_matrix_side = matrix2.cooperativeMatrixFlexibleDimensionsMaxDimension;
        capabilities.workgroup_matrix_shared_bytes = matrix2.cooperativeMatrixWorkgroupScopeReservedSharedMemory;
        VkCooperativeMatrixFlexibleDimensionsPropertiesNV empty{};
        empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV;
        HK_ASSIGN(const std::vector<VkCooperativeMatrixFlexibleDimensionsPropertiesNV> properties,
                  enumerate<VkCooperativeMatrixFlexibleDimensionsPropertiesNV>(
                      "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
                      [&](uint32_t* count, VkCooperativeMatrixFlexibleDimensionsPropertiesNV* to) {
                          return query(physical, count, to);
                      },
                      empty));
        for (const VkCooperativeMatrixFlexibleDimensionsPropertiesNV& p : properties) {
            const MatrixShape multiples{p.MGranularity,
                                        p.NGranularity,
                                        p.KGranularity,
                                        to_component(p.AType),
                                        to_component(p.BType),
                                        to_component(p.CType),
                                        to_component(p.ResultType)};
            if (p.scope == VK_SCOPE_WORKGROUP_KHR && is_of_floats(multiples))
                capabilities.workgroup_matrices.push_back({multiples, p.workgroupInvocations});
        }
    }
    capabilities.cooperative_matrix_workgroups = !capabilities.workgroup_matrices.empty();
    return {};
}

// Sets `cores` and `display` where the device supports an extension with them. Such an extension's properties may be
// queried although it is not enabled.
Status query_extensions(const Functions& functions, VkPhysicalDevice physical, Capabilities& capabilities) {
    HK_ASSIGN(const std::vector<VkExtensionProperties> extensions, device_extensions(functions, physical));
    const auto listed = [&](std::string_view name) {
        return std::ranges::any_of(extensions, [&](const VkExtensionProperties& e) { return name == e.extensionName; });
    };
    const auto query = [&](auto& structure) {
        VkPhysicalDeviceProperties2 properties{};
        properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
        properties.pNext = &structure;
        functions.vkGetPhysicalDeviceProperties2(physical, &properties);
    };
    if (listed(VK_EXT_PCI_BUS_INFO_EXTENSION_NAME)) {
        VkPhysicalDevicePCIBusInfoPropertiesEXT pci{};
        pci.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT;
        query(pci);
        capabilities.display = has_display({pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction});
    }
    if (listed(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
        VkPhysicalDeviceShaderCorePropertiesAMD amd{};
        amd.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD;
        query(amd);
        // Mesa counts registers of 64 lanes, AMD's own driver those of 32: large GPUs of RDNA 3 and 4 have 768, or
        // 1536; the others, and integrated ones, 512, or 1024.
        capabilities.large_register_file = amd.vgprsPerSimd == 768 || amd.vgprsPerSimd >= 1536;
        capabilities.cores = amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
    }
    if (listed(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
        VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia{};
        nvidia.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV;
        query(nvidia);
        capabilities.cores = nvidia.shaderSMCount;
    } else if (listed(VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME)) {
        VkPhysicalDeviceShaderCoreProperties2AMD amd{};
        amd.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD;
        query(amd);
        capabilities.cores = amd.activeComputeUnitCount;
    } else if (listed(VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME)) {
        VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm{};
        arm.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM;
        query(arm);
        capabilities.cores = arm.shaderCoreCount;
    }
    return {};
}

template<class T>
Status lower(Capabilities& capabilities, T& limit, const std::optional<T>& wanted, const char* name) {
    if (!wanted) return {};
    if (*wanted == 0 || *wanted > limit)
        return invalid_argument(
            fmt::format("override {} = {}: {} has {}, and an override can only lower it (to 1 or more)", name, *wanted,
                        capabilities.device_name, limit));
    capabilities.taken_away.push_back(fmt::format("{} {} -> {}: asked for", name, limit, *wanted));
    limit = *wanted;
    return {};
}

} // namespace

const char* device_type_name(DeviceType type) {
    switch (type) {
    case DeviceType::integrated: return "integrated";
    case DeviceType::discrete: return "discrete";
    case DeviceType::virtual_gpu: return "virtual";
    case DeviceType::cpu: return "cpu";
    case DeviceType::other: break;
    }
    return "other";
}

Result<Capabilities> query_capabilities(const Functions& functions, VkPhysicalDevice physical, uint32_t queue_family,
                                        const Features& enabled, uint32_t api_version) {
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    VkPhysicalDeviceVulkan11Properties v11{};
    v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
    VkPhysicalDeviceVulkan12Properties v12{};
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
    VkPhysicalDeviceSubgroupSizeControlProperties sizes{};
    sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    VkPhysicalDeviceMaintenance4Properties maintenance4{};
    maintenance4.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES;
    functions.vkGetPhysicalDeviceProperties(physical, &properties.properties);
    const uint32_t version = properties.properties.apiVersion;
    properties.pNext = &v11;
    v11.pNext = &v12;
    void** end = &v12.pNext;
    if (enabled.subgroup_size_control) {
        *end = &sizes;
        end = &sizes.pNext;
    }
    if (version >= VK_API_VERSION_1_3) *end = &maintenance4;
    functions.vkGetPhysicalDeviceProperties2(physical, &properties);

    const VkPhysicalDeviceProperties& p = properties.properties;
    const VkPhysicalDeviceLimits& limits = p.limits;
    Capabilities c;
    c.device_name = text_of(p.deviceName);
    c.driver_name = text_of(v12.driverName);
    c.driver_info = text_of(v12.driverInfo);
    c.vendor_id = p.vendorID;
    c.device_id = p.deviceID;
    c.driver_id = static_cast<uint32_t>(v12.driverID);
    c.driver_version = p.driverVersion;
    c.api_version = p.apiVersion;
    c.type = to_type(p.deviceType);
    std::copy_n(v11.deviceUUID, VK_UUID_SIZE, c.device_uuid.begin());
    std::copy_n(v11.driverUUID, VK_UUID_SIZE, c.driver_uuid.begin());
    std::copy_n(p.pipelineCacheUUID, VK_UUID_SIZE, c.pipeline_cache_uuid.begin());

    c.storage_16bit = enabled.storage_16bit;
    c.storage_8bit = enabled.storage_8bit;
    c.float16 = enabled.shader_float16;
    c.int64 = enabled.shader_int64;
    c.int16 = enabled.shader_int16;
    c.int8 = enabled.shader_int8;
    c.float64 = enabled.shader_float64;
    c.bfloat16 = enabled.bfloat16;
    c.integer_dot_product = enabled.integer_dot_product;
    c.memory_model = enabled.vulkan_memory_model && enabled.vulkan_memory_model_device_scope;
    c.cooperative_matrix = enabled.cooperative_matrix && c.memory_model;
    c.bfloat16_cooperative_matrix = enabled.bfloat16_cooperative_matrix && c.cooperative_matrix;
    c.spirv_1_6 = enabled.maintenance4 && api_version >= VK_API_VERSION_1_3;
    c.cooperative_matrix_elements = enabled.matrix_reductions && enabled.matrix_conversions &&
                                    enabled.matrix_element_operations && c.cooperative_matrix && c.spirv_1_6;
    c.cooperative_matrix_workgroups = enabled.matrix_workgroup_scope && enabled.matrix_flexible_dimensions &&
                                      enabled.matrix_tensor_addressing && c.cooperative_matrix && c.spirv_1_6;
    c.subgroup_clock = enabled.subgroup_clock;
    c.full_subgroups = enabled.full_subgroups && enabled.subgroup_size_control;
    c.subgroup_extended_types = enabled.subgroup_extended_types;
    c.memory_budget = enabled.memory_budget;
    const auto subgroups = [&](VkSubgroupFeatureFlags flags) {
        return (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
               (v11.subgroupSupportedOperations & flags) == flags;
    };
    c.subgroup_arithmetic = subgroups(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
    c.subgroup_shuffle = subgroups(VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT);
    c.subgroup_ballot = subgroups(VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT);

    c.subgroup_size = v11.subgroupSize;
    c.min_subgroup_size = c.subgroup_size;
    c.max_subgroup_size = c.subgroup_size;
    if (enabled.subgroup_size_control) {
        c.min_subgroup_size = sizes.minSubgroupSize;
        c.max_subgroup_size = sizes.maxSubgroupSize;
        c.max_subgroups_per_workgroup = sizes.maxComputeWorkgroupSubgroups;
        c.subgroup_size_control = (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    }
    c.shared_memory_bytes = limits.maxComputeSharedMemorySize;
    c.max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
    std::copy_n(limits.maxComputeWorkGroupSize, 3, c.max_workgroup_size.begin());
    std::copy_n(limits.maxComputeWorkGroupCount, 3, c.max_groups.begin());
    c.max_allocation_bytes = v11.maxMemoryAllocationSize;
    c.max_buffer_bytes = version >= VK_API_VERSION_1_3 ? maintenance4.maxBufferSize : v11.maxMemoryAllocationSize;
    c.max_allocations = limits.maxMemoryAllocationCount;

    VkPhysicalDeviceMemoryProperties memory{};
    functions.vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
        if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            c.device_memory_bytes = std::max(c.device_memory_bytes, memory.memoryHeaps[i].size);
    }
    // Host-visible device memory of a discrete card is accessed over a bus, sometimes in a window of 256 MiB, so it is
    // not used for tensors.
    constexpr VkMemoryPropertyFlags kAll = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                           VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
        if ((memory.memoryTypes[i].propertyFlags & kAll) == kAll &&
            (c.type == DeviceType::cpu || c.type == DeviceType::integrated)) {
            c.mapped_device_memory = true;
        }
    }

    c.long_kernels = c.many_registers = c.registers_at_any_width = true; // the quirk table knows the others
    c.large_register_file = true;
    c.uniform_loads = c.driver_id == VK_DRIVER_ID_MESA_LLVMPIPE;

    uint32_t family_count = 0;
    functions.vkGetPhysicalDeviceQueueFamilyProperties(physical, &family_count, nullptr);
    std::vector<VkQueueFamilyProperties> families(family_count);
    functions.vkGetPhysicalDeviceQueueFamilyProperties(physical, &family_count, families.data());
    if (queue_family >= family_count) {
        return invalid_argument(
            fmt::format("queue family {} was given; {} has {}", queue_family, c.device_name, family_count));
    }
    c.timestamp_bits = families[queue_family].timestampValidBits;
    c.timestamp_nanoseconds = static_cast<double>(limits.timestampPeriod);
    c.timestamps = c.timestamp_bits > 0 && c.timestamp_nanoseconds > 0;

    HK_TRY(query_extensions(functions, physical, c));
    if (c.cooperative_matrix) HK_TRY(query_matrix_shapes(functions, physical, c));
    if (!c.cooperative_matrix)
        c.bfloat16_cooperative_matrix = c.cooperative_matrix_elements = c.cooperative_matrix_workgroups = false;
    if (c.cooperative_matrix_workgroups) HK_TRY(query_workgroup_matrices(functions, physical, c));
    return c;
}

std::vector<std::string_view> capability_names() {
    std::vector<std::string_view> names;
    for (const Bit& bit : kBits) names.push_back(bit.name);
    return names;
}

Status take_away(Capabilities& capabilities, std::string_view name, std::string_view reason) {
    const Bit* bit = find_bit(name);
    if (!bit) {
        const std::vector<std::string_view> names = capability_names();
        const std::string_view near = nearest_name(name, std::span(names));
        return invalid_argument(fmt::format("no capability is called \"{}\"{} There are: {}", name,
                                            near.empty() ? "." : fmt::format("; did you mean \"{}\"?", near),
                                            fmt::join(names, ", ")));
    }
    if (!(capabilities.*(bit->bit))) return {};
    capabilities.*(bit->bit) = false;
    capabilities.taken_away.push_back(fmt::format("{}: {}", name, reason));
    if (name == "memory_model") HK_TRY(take_away(capabilities, "cooperative_matrix", "needs memory_model"));
    if (name == "bfloat16") HK_TRY(take_away(capabilities, "bfloat16_cooperative_matrix", "needs bfloat16"));
    if (name == "spirv_1_6") {
        HK_TRY(take_away(capabilities, "cooperative_matrix_elements", "needs spirv_1_6"));
        HK_TRY(take_away(capabilities, "cooperative_matrix_workgroups", "needs spirv_1_6"));
    }
    if (name == "cooperative_matrix_workgroups") capabilities.workgroup_matrices.clear();
    if (name == "subgroup_size_control")
        HK_TRY(take_away(capabilities, "full_subgroups", "needs subgroup_size_control"));
    if (name == "cooperative_matrix") {
        capabilities.matrix_shapes.clear();
        HK_TRY(take_away(capabilities, "bfloat16_cooperative_matrix", "needs cooperative_matrix"));
        HK_TRY(take_away(capabilities, "cooperative_matrix_elements", "needs cooperative_matrix"));
        HK_TRY(take_away(capabilities, "cooperative_matrix_workgroups", "needs cooperative_matrix"));
    }
    return {};
}

std::vector<std::string> missing_capabilities(const Capabilities& c) {
    std::vector<std::string> missing;
    for (const std::string_view name : {"subgroup_ballot", "subgroup_shuffle"})
        if (!*find_capability(c, name)) missing.push_back(fmt::format("{} in compute shaders", name));
    // Vulkan guarantees these two.
    constexpr uint32_t kInvocations = 128, kShared = 16384;
    if (c.max_workgroup_invocations < kInvocations)
        missing.push_back(
            fmt::format("workgroups of {} invocations ({} are possible)", kInvocations, c.max_workgroup_invocations));
    if (c.shared_memory_bytes < kShared)
        missing.push_back(
            fmt::format("{} bytes of shared memory per workgroup (it has {})", kShared, c.shared_memory_bytes));
    return missing;
}

const bool* find_capability(const Capabilities& capabilities, std::string_view name) {
    const Bit* bit = find_bit(name);
    return bit ? &(capabilities.*(bit->bit)) : nullptr;
}

Status apply_overrides(Capabilities& capabilities, const CapabilityOverrides& overrides) {
    for (const std::string& name : overrides.disable) HK_TRY(take_away(capabilities, name, "asked for"));
    HK_TRY(lower(capabilities, capabilities.shared_memory_bytes, overrides.shared_memory_bytes, "shared_memory_bytes"));
    HK_TRY(lower(capabilities, capabilities.max_workgroup_invocations, overrides.max_workgroup_invocations,
                 "max_workgroup_invocations"));
    HK_TRY(
        lower(capabilities, capabilities.max_allocation_bytes, overrides.max_allocation_bytes, "max_allocation_bytes"));
    for (std::size_t i = 0; i < 3; ++i) {
        HK_TRY(lower(capabilities, capabilities.max_groups[i], overrides.max_groups, "max_groups"));
    }
    return {};
}

} // namespace hekla::gpu
