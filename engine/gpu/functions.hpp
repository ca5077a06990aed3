// A table of Vulkan entry points, one per context, loaded from one vkGetInstanceProcAddr. Nothing here is global: two
// contexts in a process can use two loaders, and a host's own table is not affected.
#pragma once

#include "base/status.hpp"
#include "gpu/newer_vulkan.h"

#include <memory>
#include <string>

// Every entry point that the engine may call. X(name): required. Y(name): null if the loader or device lacks it.
#define HK_VULKAN_GLOBAL(X, Y)                                                                                         \
    X(vkCreateInstance)                                                                                                \
    X(vkEnumerateInstanceExtensionProperties)                                                                          \
    X(vkEnumerateInstanceLayerProperties)                                                                              \
    Y(vkEnumerateInstanceVersion)

#define HK_VULKAN_INSTANCE(X, Y)                                                                                       \
    X(vkDestroyInstance)                                                                                               \
    X(vkEnumeratePhysicalDevices)                                                                                      \
    X(vkEnumerateDeviceExtensionProperties)                                                                            \
    X(vkGetPhysicalDeviceProperties)                                                                                   \
    X(vkGetPhysicalDeviceProperties2)                                                                                  \
    X(vkGetPhysicalDeviceFeatures2)                                                                                    \
    X(vkGetPhysicalDeviceMemoryProperties)                                                                             \
    X(vkGetPhysicalDeviceMemoryProperties2)                                                                            \
    X(vkGetPhysicalDeviceQueueFamilyProperties)                                                                        \
    X(vkCreateDevice)                                                                                                  \
    X(vkGetDeviceProcAddr)                                                                                             \
    Y(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)                                                               \
    Y(vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV)                                              \
    Y(vkCreateDebugUtilsMessengerEXT)                                                                                  \
    Y(vkDestroyDebugUtilsMessengerEXT)

#define HK_VULKAN_DEVICE(X, Y)                                                                                         \
    X(vkDestroyDevice)                                                                                                 \
    X(vkGetDeviceQueue)                                                                                                \
    X(vkDeviceWaitIdle)                                                                                                \
    X(vkQueueWaitIdle)                                                                                                 \
    X(vkAllocateMemory)                                                                                                \
    X(vkFreeMemory)                                                                                                    \
    X(vkMapMemory)                                                                                                     \
    X(vkUnmapMemory)                                                                                                   \
    X(vkFlushMappedMemoryRanges)                                                                                       \
    X(vkInvalidateMappedMemoryRanges)                                                                                  \
    X(vkCreateBuffer)                                                                                                  \
    X(vkDestroyBuffer)                                                                                                 \
    X(vkBindBufferMemory)                                                                                              \
    X(vkBindBufferMemory2)                                                                                             \
    X(vkBindImageMemory)                                                                                               \
    X(vkBindImageMemory2)                                                                                              \
    X(vkGetBufferMemoryRequirements)                                                                                   \
    X(vkGetBufferMemoryRequirements2)                                                                                  \
    X(vkGetImageMemoryRequirements)                                                                                    \
    X(vkGetImageMemoryRequirements2)                                                                                   \
    X(vkCreateImage)                                                                                                   \
    X(vkDestroyImage)                                                                                                  \
    X(vkGetBufferDeviceAddress)                                                                                        \
    X(vkCreateShaderModule)                                                                                            \
    X(vkDestroyShaderModule)                                                                                           \
    X(vkCreatePipelineLayout)                                                                                          \
    X(vkDestroyPipelineLayout)                                                                                         \
    X(vkCreatePipelineCache)                                                                                           \
    X(vkDestroyPipelineCache)                                                                                          \
    X(vkGetPipelineCacheData)                                                                                          \
    X(vkCreateComputePipelines)                                                                                        \
    X(vkDestroyPipeline)                                                                                               \
    X(vkCreateCommandPool)                                                                                             \
    X(vkDestroyCommandPool)                                                                                            \
    X(vkResetCommandPool)                                                                                              \
    X(vkAllocateCommandBuffers)                                                                                        \
    X(vkFreeCommandBuffers)                                                                                            \
    X(vkBeginCommandBuffer)                                                                                            \
    X(vkEndCommandBuffer)                                                                                              \
    X(vkResetCommandBuffer)                                                                                            \
    X(vkCmdBindPipeline)                                                                                               \
    X(vkCmdPushConstants)                                                                                              \
    X(vkCmdDispatch)                                                                                                   \
    X(vkCmdCopyBuffer)                                                                                                 \
    X(vkCmdFillBuffer)                                                                                                 \
    X(vkCmdUpdateBuffer)                                                                                               \
    X(vkCmdExecuteCommands)                                                                                            \
    X(vkCmdResetQueryPool)                                                                                             \
    X(vkCmdWriteTimestamp)                                                                                             \
    X(vkCreateQueryPool)                                                                                               \
    X(vkDestroyQueryPool)                                                                                              \
    X(vkGetQueryPoolResults)                                                                                           \
    X(vkCreateSemaphore)                                                                                               \
    X(vkDestroySemaphore)                                                                                              \
    X(vkWaitSemaphores)                                                                                                \
    X(vkGetSemaphoreCounterValue)                                                                                      \
    X(vkCmdPipelineBarrier2)                                                                                           \
    X(vkQueueSubmit2)                                                                                                  \
    Y(vkGetDeviceBufferMemoryRequirements)                                                                             \
    Y(vkGetDeviceImageMemoryRequirements)                                                                              \
    Y(vkGetPipelineExecutablePropertiesKHR)                                                                            \
    Y(vkGetPipelineExecutableStatisticsKHR)                                                                            \
    Y(vkGetPipelineExecutableInternalRepresentationsKHR)                                                               \
    Y(vkSetDebugUtilsObjectNameEXT)                                                                                    \
    Y(vkCmdBeginDebugUtilsLabelEXT)                                                                                    \
    Y(vkCmdEndDebugUtilsLabelEXT)

namespace hekla::gpu {

struct Functions {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
#define HK_MEMBER(name) PFN_##name name = nullptr;
    HK_VULKAN_GLOBAL(HK_MEMBER, HK_MEMBER)
    HK_VULKAN_INSTANCE(HK_MEMBER, HK_MEMBER)
    HK_VULKAN_DEVICE(HK_MEMBER, HK_MEMBER)
#undef HK_MEMBER

    // Each loads its own level and reports the first entry point that is missing. Functions that became core after
    // `api_version` are loaded by their KHR name.
    Status load_global(PFN_vkGetInstanceProcAddr get_instance_proc_addr);
    Status load_instance(VkInstance instance);
    Status load_device(VkDevice device, uint32_t api_version);
};

// The system's Vulkan loader, opened with dlopen. It is never unloaded, because drivers leave threads and thread-local
// destructors that would run in unmapped code.
class Loader {
public:
    // Opens a loader; `path` empty: libvulkan.so.1. The error explains how to install one.
    static Result<std::shared_ptr<Loader>> open(const std::string& path = {});
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    PFN_vkGetInstanceProcAddr get_instance_proc_addr() const { return get_instance_proc_addr_; }

private:
    Loader() = default;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr_ = nullptr;
};

} // namespace hekla::gpu
