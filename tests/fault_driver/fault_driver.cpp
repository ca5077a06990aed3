#include "fault_driver.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <mutex>
#include <numeric>
#include <type_traits>

namespace hekla::test {

namespace {

enum Id : int {
#define HK_ID(name) id_##name,
    HK_VULKAN_GLOBAL(HK_ID, HK_ID) HK_VULKAN_INSTANCE(HK_ID, HK_ID) HK_VULKAN_DEVICE(HK_ID, HK_ID)
#undef HK_ID
        id_count
};

constexpr std::array<const char*, id_count> names{
#define HK_NAME(name) #name,
    HK_VULKAN_GLOBAL(HK_NAME, HK_NAME) HK_VULKAN_INSTANCE(HK_NAME, HK_NAME) HK_VULKAN_DEVICE(HK_NAME, HK_NAME)
#undef HK_NAME
};

// Functions that create an object, and the ones that must destroy it.
struct Pair {
    Id make;
    Id take;
};
constexpr Pair pairs[] = {
    {id_vkCreateInstance, id_vkDestroyInstance},
    {id_vkCreateDebugUtilsMessengerEXT, id_vkDestroyDebugUtilsMessengerEXT},
    {id_vkCreateDevice, id_vkDestroyDevice},
    {id_vkAllocateMemory, id_vkFreeMemory},
    {id_vkCreateBuffer, id_vkDestroyBuffer},
    {id_vkCreateShaderModule, id_vkDestroyShaderModule},
    {id_vkCreatePipelineLayout, id_vkDestroyPipelineLayout},
    {id_vkCreatePipelineCache, id_vkDestroyPipelineCache},
    {id_vkCreateComputePipelines, id_vkDestroyPipeline},
    {id_vkCreateCommandPool, id_vkDestroyCommandPool},
    {id_vkAllocateCommandBuffers, id_vkFreeCommandBuffers},
    {id_vkCreateQueryPool, id_vkDestroyQueryPool},
    {id_vkCreateSemaphore, id_vkDestroySemaphore},
};

struct State {
    mutable std::mutex mutex;
    FaultPlan plan;
    std::array<uint64_t, id_count> calls{};
    std::array<uint64_t, id_count> done{}; // calls for which the real driver returned success (or nothing)
    bool happened = false;
    std::map<VkDeviceMemory, uint64_t> allocations;
    uint64_t in_use = 0;
    PFN_vkGetInstanceProcAddr real = nullptr;
    PFN_vkGetDeviceProcAddr real_device = nullptr;
};

State& state() {
    static State only;
    return only;
}

struct Decision {
    bool fail = false;
    bool after = false;
    VkResult result = VK_SUCCESS;
};

Decision count_call(int id) {
    State& s = state();
    const std::lock_guard guard(s.mutex);
    const uint64_t nth = ++s.calls[static_cast<std::size_t>(id)];
    for (const Fault& fault : s.plan.faults) {
        if (fault.nth != nth || fault.name != names[static_cast<std::size_t>(id)]) continue;
        s.happened = true;
        return {true, fault.after, fault.result};
    }
    return {};
}

void count_done(int id) {
    State& s = state();
    const std::lock_guard guard(s.mutex);
    ++s.done[static_cast<std::size_t>(id)];
}

// Vulkan's feature names, the structure each belongs to, and its offset.
struct FeatureField {
    const char* name;
    VkStructureType type;
    std::size_t offset;
};
#define HK_FIELD(structure, type, field)                                                                               \
    { #field, type, offsetof(structure, field) }
constexpr FeatureField fields[] = {
    {"shaderInt64", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
     offsetof(VkPhysicalDeviceFeatures2, features) + offsetof(VkPhysicalDeviceFeatures, shaderInt64)},
    {"shaderInt16", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
     offsetof(VkPhysicalDeviceFeatures2, features) + offsetof(VkPhysicalDeviceFeatures, shaderInt16)},
    {"shaderFloat64", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
     offsetof(VkPhysicalDeviceFeatures2, features) + offsetof(VkPhysicalDeviceFeatures, shaderFloat64)},
    HK_FIELD(VkPhysicalDevice16BitStorageFeatures, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
             storageBuffer16BitAccess),
    HK_FIELD(VkPhysicalDevice8BitStorageFeatures, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
             storageBuffer8BitAccess),
    HK_FIELD(VkPhysicalDeviceBufferDeviceAddressFeatures,
             VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, bufferDeviceAddress),
    HK_FIELD(VkPhysicalDeviceTimelineSemaphoreFeatures, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
             timelineSemaphore),
    HK_FIELD(VkPhysicalDeviceScalarBlockLayoutFeatures, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES,
             scalarBlockLayout),
    HK_FIELD(VkPhysicalDeviceShaderFloat16Int8Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
             shaderFloat16),
    HK_FIELD(VkPhysicalDeviceShaderFloat16Int8Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
             shaderInt8),
    HK_FIELD(VkPhysicalDeviceSynchronization2Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES,
             synchronization2),
    HK_FIELD(VkPhysicalDeviceSubgroupSizeControlFeatures,
             VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, subgroupSizeControl),
    HK_FIELD(VkPhysicalDeviceSubgroupSizeControlFeatures,
             VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, computeFullSubgroups),
    HK_FIELD(VkPhysicalDeviceVulkanMemoryModelFeatures, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
             vulkanMemoryModel),
    HK_FIELD(VkPhysicalDeviceCooperativeMatrixFeaturesKHR,
             VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, cooperativeMatrix),
    HK_FIELD(VkPhysicalDeviceMaintenance4Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
             maintenance4),
};
#undef HK_FIELD

// Calls visit(field, its VkBool32) for every hidden feature in a chain.
template<class Visit>
void each_hidden(const void* chain, Visit&& visit) {
    for (auto* at = static_cast<const VkBaseInStructure*>(chain); at; at = at->pNext) {
        for (const FeatureField& field : fields) {
            if (field.type != at->sType || !state().plan.hidden_features.contains(field.name)) continue;
            visit(field, const_cast<std::byte*>(reinterpret_cast<const std::byte*>(at)) + field.offset);
        }
    }
}

void change_limits(VkPhysicalDeviceProperties& p) {
    const FaultPlan& plan = state().plan;
    if (plan.api_version) p.apiVersion = *plan.api_version;
    if (plan.device_type) p.deviceType = *plan.device_type;
    if (plan.shared_memory_bytes) p.limits.maxComputeSharedMemorySize = *plan.shared_memory_bytes;
    if (plan.max_workgroup_invocations) p.limits.maxComputeWorkGroupInvocations = *plan.max_workgroup_invocations;
    if (plan.max_groups) std::fill_n(p.limits.maxComputeWorkGroupCount, 3, *plan.max_groups);
}

// Replacements for the few functions that the plan affects.
template<int id>
struct Special {
    template<class F, class... A>
    static auto run(F real, A... arguments) {
        return real(arguments...);
    }
};

template<>
struct Special<id_vkAllocateMemory> {
    static VkResult run(PFN_vkAllocateMemory real, VkDevice device, const VkMemoryAllocateInfo* info,
                        const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
        State& s = state();
        const std::lock_guard guard(s.mutex);
        const uint64_t size = info->allocationSize;
        if (s.plan.allocation_cap && size > s.plan.allocation_cap) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
        if (s.plan.memory_cap && s.in_use + size > s.plan.memory_cap) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
        const VkResult result = real(device, info, callbacks, memory);
        if (result == VK_SUCCESS) {
            s.allocations[*memory] = size;
            s.in_use += size;
        }
        return result;
    }
};

template<>
struct Special<id_vkFreeMemory> {
    static void run(PFN_vkFreeMemory real, VkDevice device, VkDeviceMemory memory,
                    const VkAllocationCallbacks* callbacks) {
        State& s = state();
        const std::lock_guard guard(s.mutex);
        const auto found = s.allocations.find(memory);
        if (found != s.allocations.end()) {
            s.in_use -= found->second;
            s.allocations.erase(found);
        }
        real(device, memory, callbacks);
    }
};

template<>
struct Special<id_vkGetPhysicalDeviceProperties> {
    static void run(PFN_vkGetPhysicalDeviceProperties real, VkPhysicalDevice physical, VkPhysicalDeviceProperties* p) {
        real(physical, p);
        change_limits(*p);
    }
};

template<>
struct Special<id_vkGetPhysicalDeviceProperties2> {
    static void run(PFN_vkGetPhysicalDeviceProperties2 real, VkPhysicalDevice physical,
                    VkPhysicalDeviceProperties2* p) {
        real(physical, p);
        change_limits(p->properties);
        const FaultPlan& plan = state().plan;
        for (auto* at = static_cast<VkBaseOutStructure*>(p->pNext); at; at = at->pNext) {
            if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES) {
                auto& v11 = *reinterpret_cast<VkPhysicalDeviceVulkan11Properties*>(at);
                if (plan.max_allocation_bytes) v11.maxMemoryAllocationSize = *plan.max_allocation_bytes;
                if (plan.subgroup_operations) v11.subgroupSupportedOperations = *plan.subgroup_operations;
            }
            if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES && plan.driver_id)
                reinterpret_cast<VkPhysicalDeviceVulkan12Properties*>(at)->driverID = *plan.driver_id;
        }
    }
};

template<>
struct Special<id_vkGetPhysicalDeviceFeatures2> {
    static void run(PFN_vkGetPhysicalDeviceFeatures2 real, VkPhysicalDevice physical, VkPhysicalDeviceFeatures2* f) {
        real(physical, f);
        each_hidden(f, [](const FeatureField&, std::byte* bit) {
            const VkBool32 off = VK_FALSE;
            std::memcpy(bit, &off, sizeof off);
        });
    }
};

template<>
struct Special<id_vkCreateDevice> {
    static VkResult run(PFN_vkCreateDevice real, VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                        const VkAllocationCallbacks* callbacks, VkDevice* device) {
        // As in a real driver, a feature that was not offered cannot be enabled.
        bool asked = false;
        each_hidden(info->pNext, [&](const FeatureField&, std::byte* bit) {
            VkBool32 on = VK_FALSE;
            std::memcpy(&on, bit, sizeof on);
            asked |= on == VK_TRUE;
        });
        if (asked) return VK_ERROR_FEATURE_NOT_PRESENT;
        for (uint32_t i = 0; i < info->enabledExtensionCount; ++i) {
            if (state().plan.hidden_extensions.contains(info->ppEnabledExtensionNames[i])) {
                return VK_ERROR_EXTENSION_NOT_PRESENT;
            }
        }
        return real(physical, info, callbacks, device);
    }
};

template<>
struct Special<id_vkEnumeratePhysicalDevices> {
    static VkResult run(PFN_vkEnumeratePhysicalDevices real, VkInstance instance, uint32_t* count,
                        VkPhysicalDevice* to) {
        if (state().plan.no_devices) {
            *count = 0;
            return VK_SUCCESS;
        }
        return real(instance, count, to);
    }
};

template<>
struct Special<id_vkEnumerateDeviceExtensionProperties> {
    static VkResult run(PFN_vkEnumerateDeviceExtensionProperties real, VkPhysicalDevice physical, const char* layer,
                        uint32_t* count, VkExtensionProperties* to) {
        const VkResult result = real(physical, layer, count, to);
        if (!to || result < 0) return result;
        auto* end = std::remove_if(to, to + *count, [](const VkExtensionProperties& e) {
            return state().plan.hidden_extensions.contains(e.extensionName);
        });
        *count = static_cast<uint32_t>(end - to);
        return result;
    }
};

template<>
struct Special<id_vkGetPhysicalDeviceQueueFamilyProperties> {
    static void run(PFN_vkGetPhysicalDeviceQueueFamilyProperties real, VkPhysicalDevice physical, uint32_t* count,
                    VkQueueFamilyProperties* to) {
        real(physical, count, to);
        if (!to || !state().plan.timestamp_bits) return;
        for (uint32_t i = 0; i < *count; ++i) to[i].timestampValidBits = *state().plan.timestamp_bits;
    }
};

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char* name);

template<>
struct Special<id_vkGetDeviceProcAddr> {
    static PFN_vkVoidFunction run(PFN_vkGetDeviceProcAddr, VkDevice device, const char* name) {
        return get_device_proc_addr(device, name);
    }
};

template<int id, class F>
struct Thunk;

template<int id, class R, class... A>
struct Thunk<id, R(VKAPI_PTR*)(A...)> {
    using Function = R(VKAPI_PTR*)(A...);
    static inline Function real = nullptr;

    static VKAPI_ATTR R VKAPI_CALL call(A... arguments) {
        const Decision decision = count_call(id);
        if constexpr (std::is_same_v<R, VkResult>) {
            if (decision.fail && !decision.after) return decision.result;
            const VkResult result = Special<id>::run(real, arguments...);
            if (result == VK_SUCCESS) count_done(id);
            return decision.fail ? decision.result : result;
        } else if constexpr (std::is_void_v<R>) {
            Special<id>::run(real, arguments...);
            count_done(id);
        } else {
            return Special<id>::run(real, arguments...);
        }
    }
};

// Returns the wrapper for a function of the real driver; null if that is null or the name is unknown.
PFN_vkVoidFunction wrap(const char* name, PFN_vkVoidFunction real) {
    if (!real) return nullptr;
    std::string_view wanted = name;
    const auto known = [&] { return std::ranges::any_of(names, [&](const char* n) { return wanted == n; }); };
    if (!known() && wanted.ends_with("KHR")) wanted.remove_suffix(3);
#define HK_WRAP(entry)                                                                                                 \
    if (wanted == #entry) {                                                                                            \
        using T = Thunk<id_##entry, PFN_##entry>;                                                                      \
        T::real = reinterpret_cast<T::Function>(real);                                                                 \
        return reinterpret_cast<PFN_vkVoidFunction>(T::call);                                                          \
    }
    HK_VULKAN_GLOBAL(HK_WRAP, HK_WRAP)
    HK_VULKAN_INSTANCE(HK_WRAP, HK_WRAP)
    HK_VULKAN_DEVICE(HK_WRAP, HK_WRAP)
#undef HK_WRAP
    return real;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char* name) {
    return wrap(name, state().real_device(device, name));
}

} // namespace

FaultDriver& FaultDriver::get() {
    static FaultDriver driver;
    State& s = state();
    if (!s.real) {
        const char* chosen = std::getenv("HEKLA_REAL_VULKAN");
        void* loader = dlopen(chosen ? chosen : HEKLA_REAL_VULKAN_PATH, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (loader) s.real = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(loader, "vkGetInstanceProcAddr"));
        if (!s.real) {
            fmt::print(stderr, "fault driver: no real Vulkan loader at {}\n", chosen ? chosen : HEKLA_REAL_VULKAN_PATH);
            std::abort();
        }
    }
    return driver;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL FaultDriver::get_instance_proc_addr(VkInstance instance, const char* name) {
    static_cast<void>(get());
    State& s = state();
    if (std::string_view(name) == "vkGetInstanceProcAddr") {
        return reinterpret_cast<PFN_vkVoidFunction>(&FaultDriver::get_instance_proc_addr);
    }
    const PFN_vkVoidFunction real = s.real(instance, name);
    if (std::string_view(name) == "vkGetDeviceProcAddr") {
        s.real_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
    }
    return wrap(name, real);
}

void FaultDriver::reset(FaultPlan plan) {
    State& s = state();
    const std::lock_guard guard(s.mutex);
    s.plan = std::move(plan);
    if (const char* kernels = std::getenv("HEKLA_TEST_KERNELS");
        kernels != nullptr && std::string_view(kernels) == "gpu") {
        s.plan.device_type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
        s.plan.driver_id = static_cast<VkDriverId>(0);
    }
    s.calls = {};
    s.done = {};
    s.happened = false;
}

void FaultDriver::fail_next(std::string name, uint64_t nth, VkResult result, bool after) {
    State& s = state();
    const std::lock_guard guard(s.mutex);
    for (std::size_t id = 0; id < names.size(); ++id) {
        if (name == names[id]) nth += s.calls[id];
    }
    s.plan.faults.push_back({std::move(name), nth, result, after});
}

uint64_t FaultDriver::calls(std::string_view name) const {
    const State& s = state();
    const std::lock_guard guard(s.mutex);
    for (std::size_t id = 0; id < names.size(); ++id) {
        if (name == names[id]) return s.calls[id];
    }
    return 0;
}

uint64_t FaultDriver::calls() const {
    const State& s = state();
    const std::lock_guard guard(s.mutex);
    return std::accumulate(s.calls.begin(), s.calls.end(), uint64_t{0});
}

bool FaultDriver::fault_happened() const {
    const State& s = state();
    const std::lock_guard guard(s.mutex);
    return s.happened;
}

uint64_t FaultDriver::memory_in_use() const {
    const State& s = state();
    const std::lock_guard guard(s.mutex);
    return s.in_use;
}

std::string FaultDriver::leaks() const {
    const State& s = state();
    const std::lock_guard guard(s.mutex);
    std::string out;
    for (const Pair& pair : pairs) {
        const uint64_t made = s.done[pair.make];
        const uint64_t taken = s.done[pair.take];
        if (made != taken) out += fmt::format("{}: {} made, {} destroyed\n", names[pair.make], made, taken);
    }
    return out;
}

std::vector<std::string> functions_that_can_fail() {
    std::vector<std::string> list;
    const auto add = [&]<class R, class... A>(const char* name, R(VKAPI_PTR*)(A...)) {
        if constexpr (std::is_same_v<R, VkResult>) list.emplace_back(name);
    };
#define HK_ADD(name) add(#name, static_cast<PFN_##name>(nullptr));
    HK_VULKAN_GLOBAL(HK_ADD, HK_ADD)
    HK_VULKAN_INSTANCE(HK_ADD, HK_ADD)
    HK_VULKAN_DEVICE(HK_ADD, HK_ADD)
#undef HK_ADD
    return list;
}

} // namespace hekla::test
