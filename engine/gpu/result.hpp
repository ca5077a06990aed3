// Converts VkResult to text and to a Status.
#pragma once

#include "base/status.hpp"
#include "gpu/newer_vulkan.h"

#include <string_view>

namespace hekla::gpu {

const char* result_name(VkResult result); // "VK_ERROR_DEVICE_LOST"

// Success codes (including VK_INCOMPLETE, VK_TIMEOUT and VK_NOT_READY) are ok; callers that need them check first.
// Memory errors become out_of_memory, a lost device device_lost, missing features and layers unsupported, the rest
// internal. `what`: the failed action, "vkCreateBuffer (weights, 12 MiB)".
Status to_status(VkResult result, std::string_view what);

} // namespace hekla::gpu
