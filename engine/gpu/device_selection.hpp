// Chooses a device, a queue family and a version from a driver's reported properties, without calling a driver.
#pragma once

#include "gpu/capabilities.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::gpu {

// A row of `hekla doctor --list`.
struct DeviceInfo {
    uint32_t index = 0;
    std::string name;
    std::string driver; // name and its own version text
    DeviceType type = DeviceType::other;
    uint32_t api_version = 0;
    uint64_t memory_bytes = 0; // largest device-local heap
    std::array<uint8_t, 16> uuid{};
    bool usable = false;
    std::string why_not; // the missing requirement when not usable
};

// The queue that a host should create for Hekla.
struct QueueAdvice {
    enum class Kind : int32_t {
        async = 0,  // of a family that computes and does not draw
        second = 1, // another queue of the family that draws
        shared = 2, // there is one queue only
    };
    Kind kind = Kind::shared;
    uint32_t family = 0, index = 0;
    float priority = 0.0F; // 0 to 1, if the host's own queues have 1
};

// A snapshot of a physical device.
struct PhysicalDevice {
    std::string name;
    std::string driver; // name and version
    DeviceType type = DeviceType::other;
    uint32_t api_version = 0;
    uint64_t memory_bytes = 0; // largest device-local heap
    std::array<uint8_t, 16> uuid{};
    std::vector<VkQueueFamilyProperties> queue_families;
    std::vector<std::string> missing; // required features that are missing
};

// Returns the compute queue family: preferably one without graphics, so that a desktop's compositor does not wait for
// it. None: the device lacks a compute family.
std::optional<uint32_t> compute_family(std::span<const VkQueueFamilyProperties> families);

// Returns the queue that a host should create for Hekla.
QueueAdvice advise_queue(std::span<const VkQueueFamilyProperties> families);

// Returns the Vulkan version to use: at most 1.3. instance_version 0: the device's own.
uint32_t version_in_use(uint32_t device_version, uint32_t instance_version);

// Describes a device as a row of `hekla doctor --list`, with the reason if it is not usable.
DeviceInfo describe_device(const PhysicalDevice& device, uint32_t index);

// Returns the usable devices, each once: one that several drivers list is that of the first of them.
std::vector<DeviceInfo> distinct_devices(std::span<const DeviceInfo> devices);

// Returns the index of the device to use. `select` as DeviceOptions::select. Errors list the devices.
Result<std::size_t> choose_device(std::span<const DeviceInfo> devices, const std::string& select);

} // namespace hekla::gpu
