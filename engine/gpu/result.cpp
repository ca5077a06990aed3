#include "gpu/result.hpp"

#include <fmt/format.h>

namespace hekla::gpu {

const char* result_name(VkResult result) {
    switch (result) {
#define HK_NAME(name)                                                                                                  \
    case name: return #name;
        HK_NAME(VK_SUCCESS)
        HK_NAME(VK_NOT_READY)
        HK_NAME(VK_TIMEOUT)
        HK_NAME(VK_EVENT_SET)
        HK_NAME(VK_EVENT_RESET)
        HK_NAME(VK_INCOMPLETE)
        HK_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
        HK_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        HK_NAME(VK_ERROR_INITIALIZATION_FAILED)
        HK_NAME(VK_ERROR_DEVICE_LOST)
        HK_NAME(VK_ERROR_MEMORY_MAP_FAILED)
        HK_NAME(VK_ERROR_LAYER_NOT_PRESENT)
        HK_NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
        HK_NAME(VK_ERROR_FEATURE_NOT_PRESENT)
        HK_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
        HK_NAME(VK_ERROR_TOO_MANY_OBJECTS)
        HK_NAME(VK_ERROR_FORMAT_NOT_SUPPORTED)
        HK_NAME(VK_ERROR_FRAGMENTED_POOL)
        HK_NAME(VK_ERROR_UNKNOWN)
        HK_NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
        HK_NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE)
        HK_NAME(VK_ERROR_FRAGMENTATION)
        HK_NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
        HK_NAME(VK_PIPELINE_COMPILE_REQUIRED)
        HK_NAME(VK_ERROR_VALIDATION_FAILED_EXT)
        HK_NAME(VK_ERROR_INVALID_SHADER_NV)
        HK_NAME(VK_ERROR_NOT_PERMITTED_KHR)
#undef HK_NAME
    default: return "an unknown VkResult";
    }
}

Status to_status(VkResult result, std::string_view what) {
    if (result >= 0) return {};
    std::string message = fmt::format("{}: {} ({})", what, result_name(result), static_cast<int>(result));
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_FRAGMENTATION:
    case VK_ERROR_MEMORY_MAP_FAILED:
    case VK_ERROR_TOO_MANY_OBJECTS: return out_of_memory(std::move(message));
    case VK_ERROR_DEVICE_LOST: return {Code::device_lost, std::move(message)};
    case VK_ERROR_LAYER_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
    case VK_ERROR_FORMAT_NOT_SUPPORTED:
    case VK_ERROR_INITIALIZATION_FAILED: return unsupported(std::move(message));
    default: return internal_error(std::move(message));
    }
}

} // namespace hekla::gpu
