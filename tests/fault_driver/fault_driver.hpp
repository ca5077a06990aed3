// A Vulkan driver that injects faults: wraps the real loader's vkGetInstanceProcAddr, counts every call that the engine
// can make, fails the n-th call of any function, caps memory, lowers limits, hides features and extensions, and tracks
// objects that were never destroyed. lavapipe itself never fails.
//
// Vulkan's entry points have no user pointer, so there is one such driver per process, with one device at a time.
#pragma once

#include "gpu/functions.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::test {

struct Fault {
    std::string name; // "vkQueueSubmit2", without KHR
    uint64_t nth = 1; // the call that fails, counted from reset(); later ones succeed again
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    bool after = false; // makes the real call, then reports failure (a device lost after it accepted the work)
};

struct FaultPlan {
    std::vector<Fault> faults = {};
    uint64_t memory_cap = 0;                    // sum of all vkAllocateMemory; 0: none
    uint64_t allocation_cap = 0;                // one vkAllocateMemory; 0: none
    std::set<std::string> hidden_features = {}; // Vulkan's names: "shaderFloat16"; see fault_driver.cpp for those known
    std::set<std::string> hidden_extensions = {}; // device extensions
    std::optional<uint32_t> api_version = {};
    std::optional<uint32_t> shared_memory_bytes = {};
    std::optional<uint32_t> max_groups = {}; // in each dimension
    std::optional<uint32_t> max_workgroup_invocations = {};
    std::optional<uint64_t> max_allocation_bytes = {};
    std::optional<uint32_t> timestamp_bits = {};
    std::optional<VkPhysicalDeviceType> device_type = {};
    std::optional<VkDriverId> driver_id = {};
    std::optional<VkSubgroupFeatureFlags> subgroup_operations = {};
    bool no_devices = false;
};

class FaultDriver {
public:
    // Opens the real loader on first use.
    static FaultDriver& get();
    static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc_addr(VkInstance instance, const char* name);

    // Sets a new plan and resets all counts. Only while no Vulkan object exists.
    // HEKLA_TEST_KERNELS=gpu in the environment: the device seems to be a GPU of an unknown driver, so that the engine
    // chooses the kernels of GPUs.
    void reset(FaultPlan plan = {});
    // Adds a fault: nth counts from here.
    void fail_next(std::string name, uint64_t nth, VkResult result, bool after = false);

    uint64_t calls(std::string_view name) const;
    uint64_t calls() const; // all functions
    bool fault_happened() const;
    uint64_t memory_in_use() const;
    // Returns the objects that were created and not destroyed: "vkCreateBuffer: 2 of 5 never destroyed"; empty if there
    // are none.
    std::string leaks() const;
};

// Returns the names of the functions that return a VkResult and so can fail.
std::vector<std::string> functions_that_can_fail();

} // namespace hekla::test
