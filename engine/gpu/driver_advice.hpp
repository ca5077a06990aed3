// What to install where there is no Vulkan driver or loader.
#pragma once

#include <string>
#include <string_view>

namespace hekla::gpu {

// Returns the command that installs Vulkan drivers (Mesa's, for AMD, Intel and any CPU) and the loader on a
// distribution, and where drivers for other GPUs come from. os_release: the text of os-release(5), of which ID and
// ID_LIKE are read; another system gets a sentence without a command.
std::string driver_advice(std::string_view os_release);
// Returns the same for this system.
std::string driver_advice();

} // namespace hekla::gpu
