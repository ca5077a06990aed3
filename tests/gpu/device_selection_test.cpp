// Selection of device, queue family and version from snapshots, without calling a driver.
#include "gpu/device_selection.hpp"

#include <doctest/doctest.h>

using namespace hekla;
using namespace hekla::gpu;

namespace {

constexpr VkQueueFlags kGraphics = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
constexpr VkQueueFlags kCompute = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;

VkQueueFamilyProperties family(VkQueueFlags flags, uint32_t count = 1, uint32_t timestamp_bits = 64) {
    VkQueueFamilyProperties f{};
    f.queueFlags = flags;
    f.queueCount = count;
    f.timestampValidBits = timestamp_bits;
    return f;
}

PhysicalDevice device(std::string name, DeviceType type, uint64_t memory_bytes) {
    PhysicalDevice d;
    d.name = std::move(name);
    d.type = type;
    d.memory_bytes = memory_bytes;
    d.api_version = VK_API_VERSION_1_3;
    d.queue_families = {family(kGraphics)};
    return d;
}

std::vector<DeviceInfo> described(const std::vector<PhysicalDevice>& devices) {
    std::vector<DeviceInfo> list;
    for (const PhysicalDevice& one : devices) list.push_back(describe_device(one, static_cast<uint32_t>(list.size())));
    return list;
}

} // namespace

TEST_SUITE("no_device") {
    TEST_CASE("the best device is discrete before integrated before a CPU, then the one with more memory") {
        const auto list =
            described({device("llvmpipe", DeviceType::cpu, 64), device("Small", DeviceType::discrete, 4),
                       device("Large", DeviceType::discrete, 8), device("Built-in", DeviceType::integrated, 32)});
        CHECK(choose_device(list, "").value() == 2);
        CHECK(choose_device(std::span(list).first(1), "").value() == 0);
    }

    TEST_CASE("a device is selected by its index or a part of its name") {
        auto devices = std::vector{device("Radeon A", DeviceType::discrete, 4), device("Radeon B", DeviceType::cpu, 4)};
        devices[1].missing = {"bufferDeviceAddress", "shaderInt64"};
        const auto list = described(devices);
        CHECK(choose_device(list, "0").value() == 0);
        CHECK(choose_device(list, "n a").value() == 0);
        const Status twice = choose_device(list, "RADEON").status();
        CHECK(twice.code() == Code::invalid_argument);
        CHECK(twice.message() == "\"RADEON\" names more than one device; give its index:\n  0: Radeon A [discrete]\n"
                                 "  1: Radeon B [cpu] not usable: its driver lacks bufferDeviceAddress, shaderInt64");
        CHECK(choose_device(list, "2").status().code() == Code::not_found);
        CHECK(choose_device(list, "GeForce").status().code() == Code::not_found);
        const Status unusable = choose_device(list, "1").status();
        CHECK(unusable.code() == Code::unsupported);
        CHECK(unusable.message() == "Radeon B cannot be used: its driver lacks bufferDeviceAddress, shaderInt64");
    }

    TEST_CASE("a device that two drivers list counts once, by the first that is usable") {
        auto devices = std::vector{
            device("Radeon, driver A", DeviceType::discrete, 4), device("Radeon, driver B", DeviceType::discrete, 4),
            device("Radeon, driver C", DeviceType::discrete, 4), device("unknown", DeviceType::discrete, 4),
            device("unknown", DeviceType::discrete, 4)};
        for (std::size_t i = 0; i < 3; ++i) devices[i].uuid = {1, 2, 3};
        devices[0].missing = {"shaderInt64"};
        std::vector<uint32_t> found;
        for (const DeviceInfo& one : distinct_devices(described(devices))) found.push_back(one.index);
        CHECK(found == std::vector<uint32_t>{1, 3, 4});
    }

    TEST_CASE("an unsuitable device has a reason, and is not selected") {
        PhysicalDevice old = device("Old", DeviceType::discrete, 8), draws = device("Draws", DeviceType::discrete, 8);
        old.api_version = VK_API_VERSION_1_1;
        draws.queue_families = {family(VK_QUEUE_GRAPHICS_BIT), family(kCompute, 0)};
        const auto list = described({old, draws, device("Works", DeviceType::cpu, 1)});
        CHECK(list[0].why_not.find("Vulkan 1.1") != std::string::npos);
        CHECK(list[1].why_not == "it has no compute queue");
        CHECK(choose_device(list, "").value() == 2);
        CHECK(choose_device(std::span(list).first(2), "").status().code() == Code::unsupported);
        CHECK(choose_device({}, "").status().code() == Code::not_found);
    }

    TEST_CASE("a compute family without graphics is preferred, if it has timestamps") {
        const std::vector async{family(kGraphics, 4), family(VK_QUEUE_TRANSFER_BIT), family(kCompute, 2)};
        CHECK(compute_family(async) == 2U);
        CHECK(advise_queue(async).kind == QueueAdvice::Kind::async);
        CHECK(advise_queue(async).family == 2);
        const std::vector untimed{family(kGraphics, 4), family(kCompute, 2, 0)};
        CHECK(compute_family(untimed) == 0U);
        const QueueAdvice second = advise_queue(untimed);
        CHECK(second.kind == QueueAdvice::Kind::second);
        CHECK(second.family == 0);
        CHECK(second.index == 1);
        const QueueAdvice shared = advise_queue(std::vector{family(kGraphics)});
        CHECK(shared.kind == QueueAdvice::Kind::shared);
        CHECK(shared.priority == 1.0F);
        CHECK(!compute_family(std::vector{family(VK_QUEUE_GRAPHICS_BIT)}));
    }

    TEST_CASE("a device is used at the lowest of its version, the instance's and 1.3") {
        CHECK(version_in_use(VK_API_VERSION_1_3, 0) == VK_API_VERSION_1_3);
        CHECK(version_in_use(VK_API_VERSION_1_3, VK_API_VERSION_1_2) == VK_API_VERSION_1_2);
        CHECK(version_in_use(VK_API_VERSION_1_2, VK_API_VERSION_1_3) == VK_API_VERSION_1_2);
        CHECK(VK_API_VERSION_MINOR(version_in_use(VK_MAKE_API_VERSION(0, 1, 4, 300), 0)) == 3);
    }
}
