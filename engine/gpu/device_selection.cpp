#include "gpu/device_selection.hpp"

#include "gpu/driver_advice.hpp"
#include "gpu/quirks.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::gpu {
namespace {

bool computes(const VkQueueFamilyProperties& family) {
    return (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && family.queueCount > 0;
}

// Requires timestamps, because budgets need them.
bool computes_alone(const VkQueueFamilyProperties& family) {
    return computes(family) && (family.queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0 && family.timestampValidBits > 0;
}

int rank(DeviceType type) {
    switch (type) {
    case DeviceType::discrete: return 4;
    case DeviceType::integrated: return 3;
    case DeviceType::virtual_gpu: return 2;
    case DeviceType::other: return 1;
    case DeviceType::cpu: return 0;
    }
    return 0;
}

std::string list_of(std::span<const DeviceInfo> devices) {
    std::string out;
    for (const DeviceInfo& d : devices)
        out += fmt::format("\n  {}: {} [{}]{}{}", d.index, d.name, device_type_name(d.type),
                           d.usable ? "" : " not usable: ", d.why_not);
    return out;
}

Result<std::size_t> best_device(std::span<const DeviceInfo> devices) {
    std::optional<std::size_t> best;
    const auto order = [&](std::size_t i) { return std::pair(rank(devices[i].type), devices[i].memory_bytes); };
    for (std::size_t i = 0; i < devices.size(); ++i)
        if (devices[i].usable && (!best || order(i) > order(*best))) best = i;
    if (best) return *best;
    return unsupported("no Vulkan device can be used:" + list_of(devices));
}

Result<std::size_t> named_device(std::span<const DeviceInfo> devices, const std::string& name) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        if (lowered(devices[i].name).find(lowered(name)) == std::string::npos) continue;
        if (found)
            return invalid_argument(
                fmt::format("\"{}\" names more than one device; give its index:{}", name, list_of(devices)));
        found = i;
    }
    if (found) return *found;
    return not_found(fmt::format("no device \"{}\"; there are:{}", name, list_of(devices)));
}

} // namespace

std::optional<uint32_t> compute_family(std::span<const VkQueueFamilyProperties> families) {
    auto found = std::ranges::find_if(families, computes_alone);
    if (found == families.end()) found = std::ranges::find_if(families, computes);
    if (found == families.end()) return std::nullopt;
    return static_cast<uint32_t>(found - families.begin());
}

QueueAdvice advise_queue(std::span<const VkQueueFamilyProperties> families) {
    QueueAdvice advice;
    for (uint32_t i = 0; i < families.size(); ++i) {
        if (!computes(families[i])) continue;
        if (computes_alone(families[i])) return {QueueAdvice::Kind::async, i, 0, 0.0F};
        if (advice.kind == QueueAdvice::Kind::shared)
            advice = families[i].queueCount > 1 ? QueueAdvice{QueueAdvice::Kind::second, i, 1, 0.0F}
                                                : QueueAdvice{QueueAdvice::Kind::shared, i, 0, 1.0F};
    }
    return advice;
}

uint32_t version_in_use(uint32_t device_version, uint32_t instance_version) {
    return std::min({device_version, instance_version != 0 ? instance_version : device_version,
                     static_cast<uint32_t>(VK_MAKE_API_VERSION(0, 1, 3, 0xFFF))});
}

DeviceInfo describe_device(const PhysicalDevice& device, uint32_t index) {
    DeviceInfo info;
    info.index = index;
    info.name = device.name;
    info.driver = device.driver;
    info.type = device.type;
    info.api_version = device.api_version;
    info.memory_bytes = device.memory_bytes;
    info.uuid = device.uuid;
    if (device.api_version < VK_API_VERSION_1_2)
        info.why_not =
            fmt::format("its driver supports Vulkan {}.{}, expected 1.3, or 1.2 with VK_KHR_synchronization2",
                        VK_API_VERSION_MAJOR(device.api_version), VK_API_VERSION_MINOR(device.api_version));
    else if (!compute_family(device.queue_families))
        info.why_not = "it has no compute queue";
    else if (!device.missing.empty())
        info.why_not = fmt::format("its driver lacks {}", fmt::join(device.missing, ", "));
    info.usable = info.why_not.empty();
    return info;
}

std::vector<DeviceInfo> distinct_devices(std::span<const DeviceInfo> devices) {
    std::vector<DeviceInfo> distinct;
    for (const DeviceInfo& device : devices) {
        const bool known = device.uuid != std::array<uint8_t, 16>{} &&
                           std::ranges::find(distinct, device.uuid, &DeviceInfo::uuid) != distinct.end();
        if (device.usable && !known) distinct.push_back(device);
    }
    return distinct;
}

Result<std::size_t> choose_device(std::span<const DeviceInfo> devices, const std::string& select) {
    if (devices.empty()) return not_found(fmt::format("Vulkan lists no device: {}", driver_advice()));
    if (select.empty()) return best_device(devices);
    std::size_t index = 0;
    const char* end = select.data() + select.size();
    const auto parsed = std::from_chars(select.data(), end, index);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
        HK_ASSIGN(index, named_device(devices, select));
    } else if (index >= devices.size()) {
        return not_found(fmt::format("no device \"{}\"; there are:{}", select, list_of(devices)));
    }
    if (devices[index].usable) return index;
    return unsupported(fmt::format("{} cannot be used: {}", devices[index].name, devices[index].why_not));
}

} // namespace hekla::gpu
