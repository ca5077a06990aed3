// The Vulkan device that Hekla computes on: its own, or one that the host has. vulkan.h is not needed: a dispatchable
// handle (VkInstance, VkPhysicalDevice, VkDevice, VkQueue) is a void*, a Vulkan structure is a pointer to it, and
// get_instance_proc_addr is vkGetInstanceProcAddr, cast.
//
//     hk_device_requirements needs;
//     hk_device_requirements_create(&physical, &needs, error);     // before vkCreateDevice
//     hk_device_requirements_merge(needs, 1, &device_create_info, error);
//     vkCreateDevice(physical_device, &device_create_info, NULL, &device);
//     hk_device_requirements_destroy(needs);
//     options.vulkan = &wrapped;                                   // then hk_context_create
//     ...
//     hk_device_release(context, 1000000000, error);               // before vkDestroyDevice
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
// clang-format off
#ifndef HEKLA_DEVICE_H
#define HEKLA_DEVICE_H

#include "hekla/plugin/abi.h"
#include "hekla/plugin/error.h"

#ifdef __cplusplus
extern "C" {
#endif

// Objects are handles: numbers that are never used twice. Zero, the handle of a destroyed object and one of another
// kind are refused with HK_INVALID_ARGUMENT.

// A device with plugins.
typedef struct hk_context {
    // Number of the object; 0 is null.
    uint64_t id;
} hk_context;

// A Vulkan function of unknown type (PFN_vkVoidFunction).
typedef void(HK_ABI* hk_vulkan_function)(void);

// vkGetInstanceProcAddr.
typedef hk_vulkan_function(HK_ABI* hk_get_instance_proc_addr)(void* instance, const char* name);

// A physical device that a device is about to be created on.
typedef struct hk_physical_device {
    // sizeof(hk_physical_device).
    uint32_t struct_size;
    // VkApplicationInfo::apiVersion of the instance; 0 means the version of the device.
    uint32_t api_version;
    // vkGetInstanceProcAddr. Required.
    hk_get_instance_proc_addr get_instance_proc_addr;
    // VkInstance. Required.
    void* instance;
    // VkPhysicalDevice. Required.
    void* physical_device;
} hk_physical_device;

// The features, extensions and the queue that Hekla asks of a physical device.
typedef struct hk_device_requirements {
    // Number of the object; 0 is null.
    uint64_t id;
} hk_device_requirements;

// One feature or extension. Strings are static.
typedef struct hk_device_requirement {
    // sizeof(hk_device_requirement).
    uint32_t struct_size;
    // Nonzero: Hekla cannot run without it. 0: it is used where it is enabled.
    int32_t required;
    // Nonzero: this physical device supports it.
    int32_t supported;
    // Zero.
    int32_t reserved;
    // Vulkan's name of the feature bit: "bufferDeviceAddress". "" for an extension without one.
    const char* feature;
    // Structure that has the bit: "VkPhysicalDeviceBufferDeviceAddressFeatures".
    const char* structure;
    // Other structure that has the bit: "VkPhysicalDeviceVulkan12Features". "" where there is none.
    const char* or_structure;
    // Extension to enable with it at this version of Vulkan. "" where there is none.
    const char* extension;
    // What Hekla uses it for, in one sentence.
    const char* why;
} hk_device_requirement;

// Which queue Hekla should get.
#define HK_QUEUE_ASYNC ((int32_t)0) // a compute family without graphics: runs in parallel with the host's drawing
#define HK_QUEUE_SECOND ((int32_t)1) // another queue of the graphics family
#define HK_QUEUE_SHARED ((int32_t)2) // the only queue: submits alternate with the host's, under its lock

// The queue that the host should create for Hekla.
typedef struct hk_queue_advice {
    // sizeof(hk_queue_advice).
    uint32_t struct_size;
    // HK_QUEUE_*.
    int32_t kind;
    // Index of the queue family of the physical device.
    uint32_t family;
    // Index of the queue in the family: create at least index + 1 queues.
    uint32_t index;
    // Priority for pQueuePriorities, 0 to 1, if the host's own queues have 1.
    float priority;
    // Zero.
    int32_t reserved;
    // What to expect of this queue, in one sentence. Static.
    const char* costs;
} hk_queue_advice;

// Queries what Hekla needs on a physical device. Errors: HK_UNSUPPORTED names what the device lacks. [any-thread]
HK_EXPORT int32_t hk_device_requirements_create(const hk_physical_device* physical, hk_device_requirements* out,
                                                hk_error* error);

// Destroys the requirements, and frees what hk_device_requirements_merge added: to be called after vkCreateDevice.
// [any-thread]
HK_EXPORT void hk_device_requirements_destroy(hk_device_requirements requirements);

// Returns the number of requirements; 0 for an invalid handle. [any-thread]
HK_EXPORT uint64_t hk_device_requirements_count(hk_device_requirements requirements);

// Describes one requirement; the required ones come first. [any-thread]
HK_EXPORT int32_t hk_device_requirements_get(hk_device_requirements requirements, uint64_t index,
                                             hk_device_requirement* out, hk_error* error);

// Describes the queue to create for Hekla. [any-thread]
HK_EXPORT int32_t hk_device_requirements_queue(hk_device_requirements requirements, hk_queue_advice* out,
                                               hk_error* error);

// Adds the required features and extensions to a VkDeviceCreateInfo; with `optional` nonzero, also those that Hekla
// would use. A bit is set where a structure of the chain has it; a structure is added only where none has. The
// chain's structures are written to; pEnabledFeatures and the list of extensions become copies. Queues are left to
// the host. What is added is valid until hk_device_requirements_destroy. One thread at a time per `requirements`
HK_EXPORT int32_t hk_device_requirements_merge(hk_device_requirements requirements, int32_t optional,
                                               void* device_create_info, hk_error* error);

// A part of a VkDeviceMemory of the host, for Hekla's buffers. It was allocated with
// VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, and stays the host's until the device was released.
typedef struct hk_memory_range {
    // sizeof(hk_memory_range).
    uint32_t struct_size;
    // Index into VkPhysicalDeviceMemoryProperties::memoryTypes.
    uint32_t memory_type;
    // VkDeviceMemory. Required.
    uint64_t memory;
    // Offset of the part, in bytes: a multiple of 65536.
    uint64_t offset;
    // Size of the part, in bytes, above 0. Required.
    uint64_t bytes;
    // Host address of the byte at `offset`; null: not mapped.
    void* mapped;
} hk_memory_range;

// A device of the host. All objects stay the host's, and must live until hk_device_release or hk_context_destroy has
// returned.
typedef struct hk_vulkan_device {
    // sizeof(hk_vulkan_device).
    uint32_t struct_size;
    // VkApplicationInfo::apiVersion of the instance; 0 means the version of the device.
    uint32_t api_version;
    // vkGetInstanceProcAddr. Required.
    hk_get_instance_proc_addr get_instance_proc_addr;
    // VkInstance. Required.
    void* instance;
    // VkPhysicalDevice. Required.
    void* physical_device;
    // VkDevice. Required.
    void* device;
    // VkQueue of a family with compute. Required.
    void* queue;
    // Index of the family of `queue`.
    uint32_t queue_family;
    // Zero.
    uint32_t reserved;
    // VkDeviceCreateInfo that the device was created with, its chain included: features that are not enabled there
    // are not used. Read only during hk_context_create. Required.
    const void* device_create_info;
    // Passed to lock_queue and unlock_queue. May be null.
    void* user;
    // Locks the queue, for every use by Hekla. Needed where other threads use the queue; session threads do too while
    // they prepare. Called by threads that call Hekla and by session threads, never while Hekla waits for another
    // lock. Null together with unlock_queue (default): the queue is not shared.
    void(HK_ABI* lock_queue)(void* user);
    // Unlocks the queue.
    void(HK_ABI* unlock_queue)(void* user);
    // VkPipelineCache for all pipelines, saved by the host; 0 means one of Hekla's own. Not one that was created with
    // VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT.
    uint64_t pipeline_cache;
    // Parts of device memory that hold all of Hekla's buffers: vkAllocateMemory is not called, and what does not fit
    // is HK_OUT_OF_MEMORY. At least one must be mapped. Copied. Null (default): Hekla allocates.
    const hk_memory_range* memory_ranges;
    // Number of memory_ranges.
    uint64_t memory_range_count;
} hk_vulkan_device;

// Ends all calls and sessions of the context and releases its device, within `nanoseconds`: afterwards no Vulkan
// function is called, whatever is done with the context, and vkDestroyDevice may follow. A call on another thread
// ends as if its stop callback had ended it. Succeeds where the device was released before, and where there is none.
// Errors: HK_CANCELLED: the time was too short; nothing is lost, call it again. HK_FAILED_PRECONDITION: called from a
// callback of the context. [any-thread]
HK_EXPORT int32_t hk_device_release(hk_context context, uint64_t nanoseconds, hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
