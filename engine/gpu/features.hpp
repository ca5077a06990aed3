// The Vulkan features that the engine uses, as plain bools, and their conversion from and to pNext chains. What a
// device *supports*, what we *enable* and what a host *enabled* are three values of the same struct.
#pragma once

#include "gpu/functions.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hekla::gpu {

struct Features {
    // Required of every device.
    bool buffer_device_address = false;
    bool timeline_semaphore = false;
    bool scalar_block_layout = false;
    bool synchronization2 = false;
    bool shader_int64 = false;
    // Optional.
    bool shader_int16 = false;
    bool shader_float64 = false;
    bool storage_16bit = false; // storageBuffer16BitAccess, through addresses as well
    bool storage_8bit = false;
    bool shader_float16 = false;
    bool shader_int8 = false;
    bool subgroup_size_control = false;
    bool full_subgroups = false;
    bool subgroup_extended_types = false;
    bool vulkan_memory_model = false;
    bool vulkan_memory_model_device_scope = false;
    bool host_query_reset = false;
    bool integer_dot_product = false;
    bool cooperative_matrix = false;
    bool bfloat16 = false;
    bool bfloat16_dot_product = false;
    bool bfloat16_cooperative_matrix = false;
    bool maintenance4 = false;
    bool matrix_reductions = false; // these six are of VK_NV_cooperative_matrix2
    bool matrix_conversions = false;
    bool matrix_element_operations = false;
    bool matrix_workgroup_scope = false;
    bool matrix_flexible_dimensions = false;
    bool matrix_tensor_addressing = false;
    bool subgroup_clock = false;
    // Extensions without a feature bit.
    bool memory_budget = false;

    bool operator==(const Features&) const = default;
};

// A requirement or option of the engine: a feature bit, or an extension without one.
struct Requirement {
    bool Features::*feature = nullptr;
    bool required = false;  // otherwise the engine works without it
    const char* why = "";   // one sentence for authors of hosts
    const char* field = ""; // "bufferDeviceAddress"; "" for an extension without a bit
    VkStructureType type{}; // of the structure of this feature alone, with the bit at `offset`
    std::size_t offset = 0;
    const char* structure = "";
    VkStructureType wide_type{}; // of the VkPhysicalDeviceVulkan1xFeatures that also has the bit (0: none)
    std::size_t wide_offset = 0;
    const char* wide_structure = "";
    const char* extension = ""; // "": the feature is core in every supported version
    uint32_t core_version = 0;  // first version in which the extension is core; 0: none
};

// Returns all of them, the required ones first.
std::span<const Requirement> all_requirements();

// Returns whether its extension must be enabled at this version.
bool needs_extension(const Requirement& requirement, uint32_t api_version);

// Returns "bufferDeviceAddress: VkPhysicalDeviceVulkan12Features::bufferDeviceAddress, or ..., with extension X":
// instructions for the host.
std::string how_to_enable(const Requirement& requirement, uint32_t api_version);

// Returns the required features that are missing, by Vulkan's names; empty if the baseline is met.
std::vector<std::string> missing_baseline(const Features& features);

// Returns the extensions that `physical` supports.
Result<std::vector<VkExtensionProperties>> device_extensions(const Functions& functions, VkPhysicalDevice physical);

// Returns the features that `physical` supports, including their extensions. `api_version`: the device's.
Result<Features> supported_features(const Functions& functions, VkPhysicalDevice physical, uint32_t api_version);

// Returns the extensions that `features` need on a device of `api_version` (those not in its core).
std::vector<const char*> required_extensions(const Features& features, uint32_t api_version);

// Returns what a host enabled in vkCreateDevice, with its chain in any style (pEnabledFeatures,
// VkPhysicalDeviceVulkan12Features, one structure per feature) and its extensions. Unknown structures are skipped. A
// feature whose extension was not enabled is not enabled, whatever the chain contains.
Features enabled_features(const VkDeviceCreateInfo& created_with, uint32_t api_version);

// Adds `wanted` to the arguments of a host's vkCreateDevice: a bit is set if a structure of the host's chain has it,
// otherwise a new structure is linked. The chain's structures are modified, although pNext is a pointer to const.
// Extensions are collected in a list that includes the host's, and pEnabledFeatures becomes a copy. Everything added
// belongs to this object, which must live until vkCreateDevice has returned.
class FeatureMerge {
public:
    FeatureMerge();
    ~FeatureMerge();
    FeatureMerge(FeatureMerge&&) noexcept;
    FeatureMerge& operator=(FeatureMerge&&) noexcept;
    void apply(const Features& wanted, uint32_t api_version, VkDeviceCreateInfo& info);

private:
    struct Added;
    std::unique_ptr<Added> added_;
};

// A chain for VkDeviceCreateInfo::pNext that enables exactly `features`. Valid as long as this object, which must not
// move.
class FeatureChain {
public:
    explicit FeatureChain(const Features& features);
    ~FeatureChain();
    FeatureChain(const FeatureChain&) = delete;
    FeatureChain& operator=(const FeatureChain&) = delete;
    VkPhysicalDeviceFeatures2* first();
    const VkPhysicalDeviceFeatures2* first() const;
    VkBool32 bit(const Requirement& requirement) const; // VK_FALSE if its structure is not in the chain

private:
    struct Structures; // Vulkan's own, in features.cpp
    VkBool32* find(const Requirement& requirement) const;
    std::unique_ptr<Structures> structures_;
};

} // namespace hekla::gpu
