#include "gpu/features.hpp"

#include "gpu/enumerate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <list>
#include <string_view>

namespace hekla::gpu {
namespace {

// Offset and name of FIELD in STRUCTURE, and in the later combined structure.
#define HK_ALONE(TYPE, STRUCTURE, FIELD) #FIELD, TYPE, offsetof(STRUCTURE, FIELD), #STRUCTURE
#define HK_WIDE(TYPE, STRUCTURE, FIELD) TYPE, offsetof(STRUCTURE, FIELD), #STRUCTURE
#define HK_CORE(FIELD)                                                                                                 \
#FIELD, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,                                                              \
        offsetof(VkPhysicalDeviceFeatures2, features) + offsetof(VkPhysicalDeviceFeatures, FIELD),                     \
        "VkPhysicalDeviceFeatures", VkStructureType{}, 0, "", "", 0
#define HK_11(FIELD)                                                                                                   \
    HK_WIDE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features, FIELD)
#define HK_12(FIELD)                                                                                                   \
    HK_WIDE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, FIELD)
#define HK_13(FIELD)                                                                                                   \
    HK_WIDE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features, FIELD)
#define HK_BRAIN(FIELD)                                                                                                \
    HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,                                           \
             VkPhysicalDeviceShaderBfloat16FeaturesKHR, FIELD),                                                        \
        VkStructureType{}, 0, "", VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, 0
#define HK_MATRIX_2(FIELD)                                                                                             \
    HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV,                                       \
             VkPhysicalDeviceCooperativeMatrix2FeaturesNV, FIELD),                                                     \
        VkStructureType{}, 0, "", VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME, 0

constexpr Requirement kRequirements[] = {
    {&Features::buffer_device_address, true, "every kernel reads its tensors through addresses",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
              VkPhysicalDeviceBufferDeviceAddressFeatures, bufferDeviceAddress),
     HK_12(bufferDeviceAddress), "", 0},
    {&Features::timeline_semaphore, true, "the end of every piece of work is a point on a timeline",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, VkPhysicalDeviceTimelineSemaphoreFeatures,
              timelineSemaphore),
     HK_12(timelineSemaphore), "", 0},
    {&Features::scalar_block_layout, true, "records of arguments are laid out as in C",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES, VkPhysicalDeviceScalarBlockLayoutFeatures,
              scalarBlockLayout),
     HK_12(scalarBlockLayout), "", 0},
    {&Features::synchronization2, true, "barriers and submits are those of Vulkan 1.3",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES, VkPhysicalDeviceSynchronization2Features,
              synchronization2),
     HK_13(synchronization2), VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME, VK_API_VERSION_1_3},
    {&Features::shader_int64, false, "addresses are computed in 64 bits, without it in two words",
     HK_CORE(shaderInt64)},
    {&Features::shader_int16, false, "16-bit integers in kernels", HK_CORE(shaderInt16)},
    {&Features::shader_float64, false, "sums in 64 bits, in checks alone", HK_CORE(shaderFloat64)},
    {&Features::storage_16bit, false, "weights and activations in half the memory",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, VkPhysicalDevice16BitStorageFeatures,
              storageBuffer16BitAccess),
     HK_11(storageBuffer16BitAccess), "", 0},
    {&Features::storage_8bit, false, "8-bit weights",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, VkPhysicalDevice8BitStorageFeatures,
              storageBuffer8BitAccess),
     HK_12(storageBuffer8BitAccess), "", 0},
    {&Features::shader_float16, false, "arithmetic in 16 bits",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VkPhysicalDeviceShaderFloat16Int8Features,
              shaderFloat16),
     HK_12(shaderFloat16), "", 0},
    {&Features::shader_int8, false, "arithmetic in 8 bits",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VkPhysicalDeviceShaderFloat16Int8Features,
              shaderInt8),
     HK_12(shaderInt8), "", 0},
    {&Features::host_query_reset, false, "timestamps are made ready without a command",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES, VkPhysicalDeviceHostQueryResetFeatures,
              hostQueryReset),
     HK_12(hostQueryReset), "", 0},
    {&Features::vulkan_memory_model, false, "matrix units need it",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, VkPhysicalDeviceVulkanMemoryModelFeatures,
              vulkanMemoryModel),
     HK_12(vulkanMemoryModel), "", 0},
    {&Features::vulkan_memory_model_device_scope, false, "matrix units need it",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, VkPhysicalDeviceVulkanMemoryModelFeatures,
              vulkanMemoryModelDeviceScope),
     HK_12(vulkanMemoryModelDeviceScope), "", 0},
    {&Features::subgroup_extended_types, false, "sums over a subgroup in 16 bits",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES,
              VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures, shaderSubgroupExtendedTypes),
     HK_12(shaderSubgroupExtendedTypes), "", 0},
    {&Features::subgroup_size_control, false, "kernels choose how wide a subgroup is",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
              VkPhysicalDeviceSubgroupSizeControlFeatures, subgroupSizeControl),
     HK_13(subgroupSizeControl), VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3},
    {&Features::full_subgroups, false, "kernels know that every subgroup is full",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
              VkPhysicalDeviceSubgroupSizeControlFeatures, computeFullSubgroups),
     HK_13(computeFullSubgroups), VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3},
    {&Features::integer_dot_product, false, "products of 8-bit weights",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
              VkPhysicalDeviceShaderIntegerDotProductFeatures, shaderIntegerDotProduct),
     HK_13(shaderIntegerDotProduct), VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, VK_API_VERSION_1_3},
    {&Features::cooperative_matrix, false, "matrix units: several times faster where there are any",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
              VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrix),
     VkStructureType{}, 0, "", VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, 0},
    {&Features::bfloat16, false, "bfloat16 in kernels", HK_BRAIN(shaderBFloat16Type)},
    {&Features::bfloat16_dot_product, false, "dot products in bfloat16", HK_BRAIN(shaderBFloat16DotProduct)},
    {&Features::bfloat16_cooperative_matrix, false, "matrix units in bfloat16",
     HK_BRAIN(shaderBFloat16CooperativeMatrix)},
    {&Features::maintenance4, false, "kernels in SPIR-V 1.6",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, VkPhysicalDeviceMaintenance4Features,
              maintenance4),
     HK_13(maintenance4), VK_KHR_MAINTENANCE_4_EXTENSION_NAME, VK_API_VERSION_1_3},
    {&Features::matrix_reductions, false, "attention on matrix units with less shared memory",
     HK_MATRIX_2(cooperativeMatrixReductions)},
    {&Features::matrix_conversions, false, "attention on matrix units with less shared memory",
     HK_MATRIX_2(cooperativeMatrixConversions)},
    {&Features::matrix_element_operations, false, "attention on matrix units with less shared memory",
     HK_MATRIX_2(cooperativeMatrixPerElementOperations)},
    {&Features::matrix_workgroup_scope, false, "the lab measures matrices of a whole workgroup",
     HK_MATRIX_2(cooperativeMatrixWorkgroupScope)},
    {&Features::matrix_flexible_dimensions, false, "the lab measures matrices of a whole workgroup",
     HK_MATRIX_2(cooperativeMatrixFlexibleDimensions)},
    {&Features::matrix_tensor_addressing, false, "the lab measures matrices of a whole workgroup",
     HK_MATRIX_2(cooperativeMatrixTensorAddressing)},
    {&Features::subgroup_clock, false, "the lab measures the clock of a core",
     HK_ALONE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CLOCK_FEATURES_KHR, VkPhysicalDeviceShaderClockFeaturesKHR,
              shaderSubgroupClock),
     VkStructureType{}, 0, "", VK_KHR_SHADER_CLOCK_EXTENSION_NAME, 0},
    {&Features::memory_budget, false, "how much memory other programs left", "", VkStructureType{}, 0, "",
     VkStructureType{}, 0, "", VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, 0},
};

#undef HK_ALONE
#undef HK_WIDE
#undef HK_CORE
#undef HK_11
#undef HK_12
#undef HK_13
#undef HK_BRAIN
#undef HK_MATRIX_2

bool lists(std::span<const char* const> names, const char* name) {
    return std::ranges::any_of(names, [&](const char* one) { return std::string_view(one) == name; });
}

bool has_bit(const Requirement& r) { return *r.field != '\0'; }

VkBool32& bit_at(void* structure, std::size_t offset) {
    return *reinterpret_cast<VkBool32*>(static_cast<std::byte*>(structure) + offset);
}

// Returns the location of the bit in a structure of this type; null if it has none.
VkBool32* bit_in(const Requirement& r, VkBaseOutStructure* structure) {
    if (structure->sType == r.type) return &bit_at(structure, r.offset);
    if (r.wide_type != VkStructureType{} && structure->sType == r.wide_type) return &bit_at(structure, r.wide_offset);
    return nullptr;
}

} // namespace

// The structures with only one or a few features, which are valid for every version and extension.
struct SingleFeatureStructures {
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
    VkPhysicalDeviceMaintenance4Features maintenance4{};
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2{};
    VkPhysicalDeviceShaderClockFeaturesKHR clock{};

    SingleFeatureStructures() {
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
        maintenance4.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES;
        matrix2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV;
        clock.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CLOCK_FEATURES_KHR;
    }

    std::vector<VkBaseOutStructure*> all() {
        const auto base = [](auto& structure) { return reinterpret_cast<VkBaseOutStructure*>(&structure); };
        return {base(storage16),      base(storage8),         base(address),       base(timeline),
                base(scalar),         base(float16_int8),     base(query_reset),   base(memory_model),
                base(extended_types), base(synchronization2), base(subgroup_size), base(dot_product),
                base(matrix),         base(bfloat16),         base(maintenance4),  base(matrix2),
                base(clock)};
    }
};

std::span<const Requirement> all_requirements() { return kRequirements; }

bool needs_extension(const Requirement& r, uint32_t api_version) {
    return *r.extension != '\0' && (r.core_version == 0 || api_version < r.core_version);
}

std::string how_to_enable(const Requirement& r, uint32_t api_version) {
    std::string text = *r.extension == '\0' || has_bit(r) ? r.field : r.extension;
    if (has_bit(r)) text += fmt::format(": set {}::{}", r.structure, r.field);
    if (*r.wide_structure != '\0') text += fmt::format(" (or {}::{})", r.wide_structure, r.field);
    if (needs_extension(r, api_version))
        text += fmt::format("{} {}", has_bit(r) ? " and enable the extension" : ": enable the extension", r.extension);
    return text;
}

std::vector<std::string> missing_baseline(const Features& features) {
    std::vector<std::string> missing;
    for (const Requirement& r : kRequirements)
        if (r.required && !(features.*r.feature)) missing.emplace_back(r.field);
    return missing;
}

Result<std::vector<VkExtensionProperties>> device_extensions(const Functions& functions, VkPhysicalDevice physical) {
    return enumerate<VkExtensionProperties>(
        "vkEnumerateDeviceExtensionProperties", [&](uint32_t* count, VkExtensionProperties* to) {
            return functions.vkEnumerateDeviceExtensionProperties(physical, nullptr, count, to);
        });
}

Result<Features> supported_features(const Functions& functions, VkPhysicalDevice physical, uint32_t api_version) {
    HK_ASSIGN(const std::vector<VkExtensionProperties> extensions, device_extensions(functions, physical));
    const auto there = [&](const Requirement& r) {
        return !needs_extension(r, api_version) || std::ranges::any_of(extensions, [&](const VkExtensionProperties& e) {
            return std::string_view(r.extension) == e.extensionName;
        });
    };
    // Only structures that the device supports may be queried.
    Features everything, features;
    for (const Requirement& r : kRequirements) everything.*r.feature = there(r);
    FeatureChain chain(everything);
    functions.vkGetPhysicalDeviceFeatures2(physical, chain.first());
    for (const Requirement& r : kRequirements)
        features.*r.feature = there(r) && (!has_bit(r) || chain.bit(r) == VK_TRUE);
    return features;
}

std::vector<const char*> required_extensions(const Features& features, uint32_t api_version) {
    std::vector<const char*> names;
    for (const Requirement& r : kRequirements)
        if (features.*r.feature && needs_extension(r, api_version) && !lists(names, r.extension))
            names.push_back(r.extension);
    return names;
}

Features enabled_features(const VkDeviceCreateInfo& created_with, uint32_t api_version) {
    Features features;
    VkPhysicalDeviceFeatures2 core{};
    core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    if (created_with.pEnabledFeatures != nullptr) core.features = *created_with.pEnabledFeatures;
    const std::span<const char* const> extensions(created_with.ppEnabledExtensionNames,
                                                  created_with.enabledExtensionCount);
    for (const Requirement& r : kRequirements) {
        const bool known = !needs_extension(r, api_version) || lists(extensions, r.extension);
        if (!has_bit(r)) {
            features.*r.feature = known;
            continue;
        }
        // Only reads; the const_cast is needed because bit_in() returns a mutable pointer.
        const auto is_set = [&](const void* structure) {
            const VkBool32* bit = bit_in(r, static_cast<VkBaseOutStructure*>(const_cast<void*>(structure)));
            return bit != nullptr && *bit == VK_TRUE;
        };
        bool set = is_set(&core);
        for (const auto* at = static_cast<const VkBaseInStructure*>(created_with.pNext); at != nullptr; at = at->pNext)
            set |= is_set(at);
        features.*r.feature = known && set;
    }
    return features;
}

struct FeatureMerge::Added {
    SingleFeatureStructures structures;
    VkPhysicalDeviceFeatures core{};
    std::list<std::vector<const char*>> extensions; // of every apply(), because an earlier list may still be referenced
};

FeatureMerge::FeatureMerge() : added_(std::make_unique<Added>()) {}
FeatureMerge::~FeatureMerge() = default;
FeatureMerge::FeatureMerge(FeatureMerge&&) noexcept = default;
FeatureMerge& FeatureMerge::operator=(FeatureMerge&&) noexcept = default;

void FeatureMerge::apply(const Features& wanted, uint32_t api_version, VkDeviceCreateInfo& info) {
    const auto first = [&] { return static_cast<VkBaseOutStructure*>(const_cast<void*>(info.pNext)); };
    const std::vector<VkBaseOutStructure*> own = added_->structures.all();
    for (const Requirement& r : kRequirements) {
        if (!(wanted.*r.feature) || !has_bit(r)) continue;
        bool set = false;
        for (VkBaseOutStructure* at = first(); at != nullptr; at = at->pNext)
            if (VkBool32* bit = bit_in(r, at); bit != nullptr) {
                *bit = VK_TRUE;
                set = true;
            }
        if (set) continue;
        if (r.type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2) { // and there is none: pEnabledFeatures
            if (info.pEnabledFeatures != nullptr && info.pEnabledFeatures != &added_->core)
                added_->core = *info.pEnabledFeatures;
            bit_at(&added_->core, r.offset - offsetof(VkPhysicalDeviceFeatures2, features)) = VK_TRUE;
            info.pEnabledFeatures = &added_->core;
            continue;
        }
        for (VkBaseOutStructure* structure : own) {
            VkBool32* bit = bit_in(r, structure);
            if (bit == nullptr) continue;
            *bit = VK_TRUE;
            structure->pNext = first();
            info.pNext = structure;
            break;
        }
    }
    std::vector<const char*> names(info.ppEnabledExtensionNames,
                                   info.ppEnabledExtensionNames + info.enabledExtensionCount);
    for (const char* name : required_extensions(wanted, api_version))
        if (!lists(names, name)) names.push_back(name);
    if (names.size() == info.enabledExtensionCount) return;
    added_->extensions.push_back(std::move(names));
    info.enabledExtensionCount = static_cast<uint32_t>(added_->extensions.back().size());
    info.ppEnabledExtensionNames = added_->extensions.back().data();
}

struct FeatureChain::Structures {
    VkPhysicalDeviceFeatures2 core{};
    SingleFeatureStructures alone;
};

// Links the structure of every wanted feature, and no other.
FeatureChain::FeatureChain(const Features& features) : structures_(std::make_unique<Structures>()) {
    structures_->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    for (VkBaseOutStructure* structure : structures_->alone.all()) {
        bool wanted = false;
        for (const Requirement& r : kRequirements)
            wanted |= has_bit(r) && r.type == structure->sType && features.*r.feature;
        if (!wanted) continue;
        structure->pNext = static_cast<VkBaseOutStructure*>(structures_->core.pNext);
        structures_->core.pNext = structure;
    }
    for (const Requirement& r : kRequirements)
        if (has_bit(r) && features.*r.feature) *find(r) = VK_TRUE;
}

FeatureChain::~FeatureChain() = default;

VkPhysicalDeviceFeatures2* FeatureChain::first() { return &structures_->core; }
const VkPhysicalDeviceFeatures2* FeatureChain::first() const { return &structures_->core; }

VkBool32* FeatureChain::find(const Requirement& r) const {
    for (auto* at = reinterpret_cast<VkBaseOutStructure*>(&structures_->core); at != nullptr; at = at->pNext)
        if (VkBool32* bit = bit_in(r, at); bit != nullptr) return bit;
    return nullptr;
}

VkBool32 FeatureChain::bit(const Requirement& r) const {
    const VkBool32* found = find(r);
    return found != nullptr ? *found : VK_FALSE;
}

} // namespace hekla::gpu
