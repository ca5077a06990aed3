// The Vulkan device that Hekla computes on: its own, or the one that the app already has. vulkan.h is not needed: a
// dispatchable handle (VkInstance, VkPhysicalDevice, VkDevice, VkQueue) is a void*, a structure of Vulkan's is a
// pointer to it, and get_instance_proc_addr is vkGetInstanceProcAddr, cast.
//
//     hk_device_requirements needs;
//     hk_device_requirements_create(&physical, &needs, error);     // before vkCreateDevice
//     hk_device_requirements_merge(needs, 1, &device_create_info, error);
//     vkCreateDevice(physical_device, &device_create_info, NULL, &device);
//     hk_device_requirements_destroy(needs);
//     options.vulkan = &wrapped;                                   // then hk_context_create
//     ...
//     hk_device_release(context, 1000000000, error);               // before vkDestroyDevice
#ifndef HEKLA_DEVICE_H
#define HEKLA_DEVICE_H

#include "hekla/plugin/abi.h"
#include "hekla/plugin/error.h"

#ifdef __cplusplus
extern "C" {
#endif

// Objects of hosts are handles: a number that is never used again. Zero, one of an object that was destroyed and one of
// another kind are refused with HK_INVALID_ARGUMENT.

// A device with plugins.
typedef struct hk_context {
    uint64_t id;
} hk_context;

typedef void(HK_ABI* hk_vulkan_function)(void);
typedef hk_vulkan_function(HK_ABI* hk_get_instance_proc_addr)(void* instance, const char* name);

// Where a device is about to be made.
typedef struct hk_physical_device {
    uint32_t struct_size;
    uint32_t api_version; // VkApplicationInfo::apiVersion that the instance was made with; 0: the device's own
    hk_get_instance_proc_addr get_instance_proc_addr;
    void* instance;        // VkInstance
    void* physical_device; // VkPhysicalDevice
} hk_physical_device;

// What Hekla asks of a device.
typedef struct hk_device_requirements {
    uint64_t id;
} hk_device_requirements;

// One feature or extension. Texts are static.
typedef struct hk_device_requirement {
    uint32_t struct_size;
    int32_t required;         // 0: Hekla does without
    int32_t supported;        // by this physical device
    int32_t reserved;         // zero
    const char* feature;      // Vulkan's name of the bit: "bufferDeviceAddress"; "" for an extension that has none
    const char* structure;    // where it is set: "VkPhysicalDeviceBufferDeviceAddressFeatures"
    const char* or_structure; // or there: "VkPhysicalDeviceVulkan12Features"; "" if nowhere else
    const char* extension;    // to be enabled with it at this version of Vulkan; "": none
    const char* why;
} hk_device_requirement;

#define HK_QUEUE_ASYNC ((int32_t)0)  // a family that computes and does not draw: runs beside what the app draws
#define HK_QUEUE_SECOND ((int32_t)1) // another queue of the family that draws
#define HK_QUEUE_SHARED ((int32_t)2) // there is one queue only: submits alternate with the app's, under its lock

// The queue that the host should make for Hekla.
typedef struct hk_queue_advice {
    uint32_t struct_size;
    int32_t kind;      // HK_QUEUE_*
    uint32_t family;   // of the physical device
    uint32_t index;    // within the family: this many queues come before it
    float priority;    // for pQueuePriorities, beside 1 for the app's own
    int32_t reserved;  // zero
    const char* costs; // one line, static: what to expect
} hk_queue_advice;

// Errors: HK_UNSUPPORTED names what the device lacks. [any-thread]
HK_EXPORT int32_t hk_device_requirements_create(const hk_physical_device* physical, hk_device_requirements* out,
                                                hk_error* error);
// Frees what hk_device_requirements_merge added too: after vkCreateDevice. [any-thread]
HK_EXPORT void hk_device_requirements_destroy(hk_device_requirements requirements);
// How many there are; 0 for a handle that is none. [any-thread]
HK_EXPORT uint64_t hk_device_requirements_count(hk_device_requirements requirements);
// The required ones come first. [any-thread]
HK_EXPORT int32_t hk_device_requirements_get(hk_device_requirements requirements, uint64_t index,
                                             hk_device_requirement* out, hk_error* error);
// [any-thread]
HK_EXPORT int32_t hk_device_requirements_queue(hk_device_requirements requirements, hk_queue_advice* out,
                                               hk_error* error);
// Adds to a VkDeviceCreateInfo what Hekla requires, and with `optional` not 0 what it would use besides. A bit is set
// where a structure of the chain has it, and a new structure is linked only where none does. The chain's structures are
// written to; pEnabledFeatures and the list of extensions become copies. What is added lives until
// hk_device_requirements_destroy. Queues are the host's. One thread at a time for one `requirements`.
HK_EXPORT int32_t hk_device_requirements_merge(hk_device_requirements requirements, int32_t optional,
                                               void* device_create_info, hk_error* error);

// A part of a VkDeviceMemory of the host's, in which Hekla's buffers may lie: allocated with
// VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, and the host's own until the device was released.
typedef struct hk_memory_range {
    uint32_t struct_size;
    uint32_t memory_type; // index into VkPhysicalDeviceMemoryProperties::memoryTypes
    uint64_t memory;      // VkDeviceMemory
    uint64_t offset;      // a multiple of 65536
    uint64_t bytes;
    void* mapped; // where `offset` lies in the host's address space; null: not mapped
} hk_memory_range;

// A device of the host's. Everything stays the host's, and must live until hk_device_release or hk_context_destroy has
// returned.
typedef struct hk_vulkan_device {
    uint32_t struct_size;
    uint32_t api_version; // VkApplicationInfo::apiVersion that the instance was made with; 0: the device's own
    hk_get_instance_proc_addr get_instance_proc_addr;
    void* instance;        // VkInstance
    void* physical_device; // VkPhysicalDevice
    void* device;          // VkDevice
    void* queue;           // VkQueue, of a family that computes
    uint32_t queue_family;
    uint32_t reserved; // zero
    // VkDeviceCreateInfo that the device was made with, its chain included: what is not enabled there is never used.
    // Read during the call alone.
    const void* device_create_info;
    void* user;
    // Around every use of the queue, where other threads use it: the host's, or one of a session (hekla/session.h) that
    // prepares; both or neither. Called by the thread that called Hekla or by a session's, and never while another lock
    // of Hekla's is waited for.
    void(HK_ABI* lock_queue)(void* user);
    void(HK_ABI* unlock_queue)(void* user);
    // VkPipelineCache that pipelines are made with, and that the host saves; 0: one of Hekla's own. Not one made with
    // VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT.
    uint64_t pipeline_cache;
    // Everything that Hekla keeps in device memory lies in these, and nothing is allocated (vkAllocateMemory is not
    // called): what does not fit is HK_OUT_OF_MEMORY. At least one has to be mapped. Copied. 0: memory of Hekla's own.
    const hk_memory_range* memory_ranges;
    uint64_t memory_range_count;
} hk_vulkan_device;

// Ends what runs on the context's device within so many nanoseconds and gives everything of it back: after it no
// function of Vulkan is called, whatever is done with the context, and vkDestroyDevice may follow. A call on another
// thread ends as its stop callback would end it. Errors: HK_CANCELLED where the time was not enough, and nothing is
// lost (call it again); HK_FAILED_PRECONDITION in a callback of a call on the context. A context whose device was
// released, or that has none, is no error. [any-thread]
HK_EXPORT int32_t hk_device_release(hk_context context, uint64_t nanoseconds, hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
