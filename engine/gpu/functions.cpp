#include "gpu/functions.hpp"

#include "base/shared_library.hpp"
#include "gpu/driver_advice.hpp"

#include <fmt/format.h>
#include <string_view>

namespace hekla::gpu {

namespace {

Status missing(const char* name, const char* level) {
    return unsupported(fmt::format("the Vulkan {} lacks {}: a driver for Vulkan 1.3, or 1.2 with "
                                   "VK_KHR_synchronization2, is needed",
                                   level, name));
}

} // namespace

#define HK_LOAD(get, level, name)                                                                                      \
    name = reinterpret_cast<PFN_##name>(get(#name));                                                                   \
    if (!name) return missing(#name, level);
#define HK_LOAD_OPTIONAL(get, name) name = reinterpret_cast<PFN_##name>(get(#name));

Status Functions::load_global(PFN_vkGetInstanceProcAddr get_instance_proc_addr) {
    if (!get_instance_proc_addr) return invalid_argument("no vkGetInstanceProcAddr was given");
    vkGetInstanceProcAddr = get_instance_proc_addr;
    const auto get = [&](const char* name) { return vkGetInstanceProcAddr(VK_NULL_HANDLE, name); };
#define HK_X(name) HK_LOAD(get, "loader", name)
#define HK_Y(name) HK_LOAD_OPTIONAL(get, name)
    HK_VULKAN_GLOBAL(HK_X, HK_Y)
#undef HK_X
#undef HK_Y
    return {};
}

Status Functions::load_instance(VkInstance instance) {
    const auto get = [&](const char* name) { return vkGetInstanceProcAddr(instance, name); };
#define HK_X(name) HK_LOAD(get, "instance", name)
#define HK_Y(name) HK_LOAD_OPTIONAL(get, name)
    HK_VULKAN_INSTANCE(HK_X, HK_Y)
#undef HK_X
#undef HK_Y
    return {};
}

Status Functions::load_device(VkDevice device, uint32_t api_version) {
    const auto get = [&](std::string_view name) {
        // On a device of an older version, a driver may return a function for the core name that must not be called.
        const bool newer = name == "vkCmdPipelineBarrier2" || name == "vkQueueSubmit2" ||
                           name == "vkGetDeviceBufferMemoryRequirements" ||
                           name == "vkGetDeviceImageMemoryRequirements";
        if (newer && api_version < VK_API_VERSION_1_3)
            return vkGetDeviceProcAddr(device, (std::string(name) + "KHR").c_str());
        return vkGetDeviceProcAddr(device, std::string(name).c_str());
    };
#define HK_X(name) HK_LOAD(get, "device", name)
#define HK_Y(name) HK_LOAD_OPTIONAL(get, name)
    HK_VULKAN_DEVICE(HK_X, HK_Y)
#undef HK_X
#undef HK_Y
    return {};
}

Result<std::shared_ptr<Loader>> Loader::open(const std::string& path) {
    const std::string name = path.empty() ? "libvulkan.so.1" : path;
    std::string why;
    const SharedLibrary library = SharedLibrary::open(name, why);
    if (!library)
        return not_found(fmt::format("the Vulkan loader {} cannot be opened ({}): {}", name,
                                     why.empty() ? "no reason given" : why, driver_advice()));
    library.pin();
    auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(library.symbol("vkGetInstanceProcAddr"));
    if (!get) return unsupported(fmt::format("{} has no vkGetInstanceProcAddr: it is not a Vulkan loader", name));
    auto loader = std::shared_ptr<Loader>(new Loader);
    loader->get_instance_proc_addr_ = get;
    return loader;
}

} // namespace hekla::gpu
