// The Vulkan features the engine knows, as plain bools, and their translation from and to pNext chains. What a device
// *supports*, what we *enable* and what a host *enabled* are three values of the same struct.
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
    // Extensions without a feature bit.
    bool memory_budget = false;

    bool operator==(const Features&) const = default;
};

// The required features that are missing, by Vulkan's names; empty when the baseline is met.
std::vector<std::string> missing_baseline(const Features& features);

// What `physical` offers: features, and whether their extensions are there. `api_version`: the device's.
Result<Features> supported_features(const Functions& functions, VkPhysicalDevice physical, uint32_t api_version);

// The extensions that `features` need on a device of `api_version` (those not in its core).
std::vector<const char*> required_extensions(const Features& features, uint32_t api_version);

// What a host says it enabled: its VkDeviceCreateInfo's chain (either style: Vulkan12Features or one struct a feature)
// and its extensions. Structures not known here are skipped.
Features features_from_chain(const VkPhysicalDeviceFeatures2* chain, std::span<const char* const> extensions,
                             uint32_t api_version);

// A chain for VkDeviceCreateInfo::pNext that enables exactly `features`. Lives as long as this object, which stays put.
class FeatureChain {
public:
    explicit FeatureChain(const Features& features);
    ~FeatureChain();
    FeatureChain(const FeatureChain&) = delete;
    FeatureChain& operator=(const FeatureChain&) = delete;
    const VkPhysicalDeviceFeatures2* first() const;

    struct Structures; // Vulkan's own structures, in features.cpp

private:
    std::unique_ptr<Structures> structures_;
};

} // namespace hekla::gpu
