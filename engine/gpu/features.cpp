#include "gpu/features.hpp"

#include "gpu/result.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace hekla::gpu {

// One Vulkan structure a feature (not Vulkan12Features and its like): these are right for every version and extension.
struct FeatureChain::Structures {
    VkPhysicalDeviceFeatures2 core{};
    VkPhysicalDevice16BitStorageFeatures storage16{};
    VkPhysicalDevice8BitStorageFeatures storage8{};
    VkPhysicalDeviceBufferDeviceAddressFeatures address{};
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline{};
    VkPhysicalDeviceScalarBlockLayoutFeatures scalar{};
    VkPhysicalDeviceShaderFloat16Int8Features float16_int8{};
    VkPhysicalDeviceHostQueryResetFeatures query_reset{};
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{};
    VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures extended_types{};
    VkPhysicalDeviceSynchronization2Features synchronization2{};
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size{};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot_product{};
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{};
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16{};

    Structures() {
        core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
        storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
        storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
        address.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
        timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
        scalar.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES;
        float16_int8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
        query_reset.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES;
        memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
        extended_types.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES;
        synchronization2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES;
        subgroup_size.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
        dot_product.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
        matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
        bfloat16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR;
    }

    // visit(our bool, Vulkan's): the whole translation, in both directions.
    template<class Visit>
    void each(Visit&& visit) {
        visit(&Features::shader_int64, core.features.shaderInt64);
        visit(&Features::shader_int16, core.features.shaderInt16);
        visit(&Features::shader_float64, core.features.shaderFloat64);
        visit(&Features::storage_16bit, storage16.storageBuffer16BitAccess);
        visit(&Features::storage_8bit, storage8.storageBuffer8BitAccess);
        visit(&Features::buffer_device_address, address.bufferDeviceAddress);
        visit(&Features::timeline_semaphore, timeline.timelineSemaphore);
        visit(&Features::scalar_block_layout, scalar.scalarBlockLayout);
        visit(&Features::shader_float16, float16_int8.shaderFloat16);
        visit(&Features::shader_int8, float16_int8.shaderInt8);
        visit(&Features::host_query_reset, query_reset.hostQueryReset);
        visit(&Features::vulkan_memory_model, memory_model.vulkanMemoryModel);
        visit(&Features::vulkan_memory_model_device_scope, memory_model.vulkanMemoryModelDeviceScope);
        visit(&Features::subgroup_extended_types, extended_types.shaderSubgroupExtendedTypes);
        visit(&Features::synchronization2, synchronization2.synchronization2);
        visit(&Features::subgroup_size_control, subgroup_size.subgroupSizeControl);
        visit(&Features::full_subgroups, subgroup_size.computeFullSubgroups);
        visit(&Features::integer_dot_product, dot_product.shaderIntegerDotProduct);
        visit(&Features::cooperative_matrix, matrix.cooperativeMatrix);
        visit(&Features::bfloat16, bfloat16.shaderBFloat16Type);
        visit(&Features::bfloat16_dot_product, bfloat16.shaderBFloat16DotProduct);
        visit(&Features::bfloat16_cooperative_matrix, bfloat16.shaderBFloat16CooperativeMatrix);
    }

    void link_all(bool synchronization, bool size_control, bool dot, bool cooperative, bool brain) {
        void** end = &core.pNext;
        const auto append = [&](auto& structure) {
            *end = &structure;
            end = &structure.pNext;
            structure.pNext = nullptr;
        };
        append(storage16);
        append(storage8);
        append(address);
        append(timeline);
        append(scalar);
        append(float16_int8);
        append(query_reset);
        append(memory_model);
        append(extended_types);
        if (synchronization) append(synchronization2);
        if (size_control) append(subgroup_size);
        if (dot) append(dot_product);
        if (cooperative) append(matrix);
        if (brain) append(bfloat16);
    }

    void read(const VkPhysicalDeviceFeatures2* chain) {
        for (const auto* at = reinterpret_cast<const VkBaseInStructure*>(chain); at; at = at->pNext) {
            const auto take = [&](auto& structure) {
                if (structure.sType == at->sType) std::memcpy(&structure, at, sizeof structure);
            };
            take(core);
            take(storage16);
            take(storage8);
            take(address);
            take(timeline);
            take(scalar);
            take(float16_int8);
            take(query_reset);
            take(memory_model);
            take(extended_types);
            take(synchronization2);
            take(subgroup_size);
            take(dot_product);
            take(matrix);
            take(bfloat16);
            if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES) {
                const auto* f = reinterpret_cast<const VkPhysicalDeviceVulkan11Features*>(at);
                storage16.storageBuffer16BitAccess = f->storageBuffer16BitAccess;
            } else if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
                const auto* f = reinterpret_cast<const VkPhysicalDeviceVulkan12Features*>(at);
                storage8.storageBuffer8BitAccess = f->storageBuffer8BitAccess;
                address.bufferDeviceAddress = f->bufferDeviceAddress;
                timeline.timelineSemaphore = f->timelineSemaphore;
                scalar.scalarBlockLayout = f->scalarBlockLayout;
                float16_int8.shaderFloat16 = f->shaderFloat16;
                float16_int8.shaderInt8 = f->shaderInt8;
                query_reset.hostQueryReset = f->hostQueryReset;
                memory_model.vulkanMemoryModel = f->vulkanMemoryModel;
                memory_model.vulkanMemoryModelDeviceScope = f->vulkanMemoryModelDeviceScope;
                extended_types.shaderSubgroupExtendedTypes = f->shaderSubgroupExtendedTypes;
            } else if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES) {
                const auto* f = reinterpret_cast<const VkPhysicalDeviceVulkan13Features*>(at);
                synchronization2.synchronization2 = f->synchronization2;
                subgroup_size.subgroupSizeControl = f->subgroupSizeControl;
                subgroup_size.computeFullSubgroups = f->computeFullSubgroups;
                dot_product.shaderIntegerDotProduct = f->shaderIntegerDotProduct;
            }
        }
    }
};

std::vector<std::string> missing_baseline(const Features& features) {
    std::vector<std::string> missing;
    if (!features.buffer_device_address) missing.emplace_back("bufferDeviceAddress");
    if (!features.timeline_semaphore) missing.emplace_back("timelineSemaphore");
    if (!features.scalar_block_layout) missing.emplace_back("scalarBlockLayout");
    if (!features.synchronization2) missing.emplace_back("synchronization2");
    if (!features.shader_int64) missing.emplace_back("shaderInt64");
    return missing;
}

Result<Features> supported_features(const Functions& functions, VkPhysicalDevice physical, uint32_t api_version) {
    std::vector<VkExtensionProperties> extensions;
    VkResult result = VK_INCOMPLETE;
    while (result == VK_INCOMPLETE) { // the list may grow between the two calls
        uint32_t count = 0;
        result = functions.vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
        if (result != VK_SUCCESS) break;
        extensions.resize(count);
        result = functions.vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, extensions.data());
        extensions.resize(std::min<std::size_t>(count, extensions.size()));
    }
    HK_TRY(to_status(result, "vkEnumerateDeviceExtensionProperties"));
    const auto has = [&](std::string_view name) {
        return std::ranges::any_of(extensions, [&](const VkExtensionProperties& e) { return name == e.extensionName; });
    };
    const bool is_1_3 = api_version >= VK_API_VERSION_1_3;

    FeatureChain::Structures structures;
    structures.link_all(is_1_3 || has(VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME),
                        is_1_3 || has(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME),
                        is_1_3 || has(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME),
                        has(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME), has(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME));
    functions.vkGetPhysicalDeviceFeatures2(physical, &structures.core);
    Features features;
    structures.each([&](bool Features::*ours, const VkBool32& theirs) { features.*ours = theirs == VK_TRUE; });
    features.memory_budget = has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    return features;
}

std::vector<const char*> required_extensions(const Features& features, uint32_t api_version) {
    std::vector<const char*> names;
    if (api_version < VK_API_VERSION_1_3) {
        if (features.synchronization2) names.push_back(VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME);
        if (features.subgroup_size_control) names.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
        if (features.integer_dot_product) names.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    }
    if (features.cooperative_matrix) names.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    if (features.bfloat16) names.push_back(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
    if (features.memory_budget) names.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    return names;
}

Features features_from_chain(const VkPhysicalDeviceFeatures2* chain, std::span<const char* const> extensions,
                             uint32_t api_version) {
    FeatureChain::Structures structures;
    structures.read(chain);
    Features features;
    structures.each([&](bool Features::*ours, const VkBool32& theirs) { features.*ours = theirs == VK_TRUE; });
    features.memory_budget = std::ranges::any_of(
        extensions, [](const char* name) { return std::string_view(name) == VK_EXT_MEMORY_BUDGET_EXTENSION_NAME; });
    // A feature whose extension was not enabled is not enabled, whatever the chain says.
    Features checked = features;
    const auto enabled = [&](std::string_view name) {
        return std::ranges::any_of(extensions, [&](const char* have) { return name == have; });
    };
    if (api_version < VK_API_VERSION_1_3) {
        checked.synchronization2 &= enabled(VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME);
        checked.subgroup_size_control &= enabled(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
        checked.full_subgroups &= enabled(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
        checked.integer_dot_product &= enabled(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    }
    checked.cooperative_matrix &= enabled(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    const bool brain = enabled(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
    checked.bfloat16 &= brain;
    checked.bfloat16_dot_product &= brain;
    checked.bfloat16_cooperative_matrix &= brain;
    return checked;
}

FeatureChain::FeatureChain(const Features& features) : structures_(std::make_unique<Structures>()) {
    structures_->each([&](bool Features::*ours, VkBool32& theirs) { theirs = features.*ours ? VK_TRUE : VK_FALSE; });
    structures_->link_all(features.synchronization2, features.subgroup_size_control, features.integer_dot_product,
                          features.cooperative_matrix, features.bfloat16);
}

FeatureChain::~FeatureChain() = default;

const VkPhysicalDeviceFeatures2* FeatureChain::first() const { return &structures_->core; }

} // namespace hekla::gpu
