#include "gpu/capabilities.hpp"
#include "gpu/quirks.hpp"

#include <algorithm>
#include <doctest/doctest.h>

using namespace hekla;
using namespace hekla::gpu;

namespace {

Capabilities some_device() {
    Capabilities c;
    c.device_name = "Some GPU 9000";
    c.driver_name = "somedrv";
    c.driver_info = "Mesa 25.0.7-2 (LLVM 19.1.7)";
    c.vendor_id = 0x1002;
    c.driver_id = 3;
    c.float16 = true;
    c.storage_16bit = true;
    c.cooperative_matrix = true;
    c.bfloat16 = true;
    c.bfloat16_cooperative_matrix = true;
    c.cooperative_matrix_elements = true;
    c.spirv_1_6 = true;
    c.matrix_shapes.resize(2);
    c.timestamps = true;
    c.shared_memory_bytes = 49152;
    c.max_groups = {100, 100, 100};
    c.max_workgroup_invocations = 1024;
    c.max_allocation_bytes = uint64_t{1} << 31;
    return c;
}

} // namespace

TEST_SUITE("no_device") {

    TEST_CASE("the built-in quirk table is well-formed and every row has a link") {
        const auto quirks = built_in_quirks();
        REQUIRE_MESSAGE(quirks.ok(), quirks.message());
        CHECK(quirks.value().size() >= 4);
        for (const Quirk& quirk : quirks.value()) CHECK(quirk.link.starts_with("https://"));
    }

    TEST_CASE("a quirk applies if all of its conditions match") {
        Quirk quirk;
        quirk.takes = {"float16"};
        CHECK(quirk_applies(quirk, some_device()));
        quirk.vendor_id = 0x1002;
        quirk.driver_contains = "MESA";
        quirk.device_contains = {"gpu 8", "gpu 9"};
        CHECK(quirk_applies(quirk, some_device()));
        quirk.device_contains = {"gpu 8"};
        CHECK_FALSE(quirk_applies(quirk, some_device()));
        quirk.device_contains.clear();
        quirk.version_from = "25.0";
        quirk.version_below = "25.0.8";
        CHECK(quirk_applies(quirk, some_device()));
        quirk.version_below = "25.0.7";
        CHECK_FALSE(quirk_applies(quirk, some_device()));
        quirk.version_below = "26";
        CHECK_FALSE(quirk_applies(quirk, some_device())); // "26" is not a version; parse_quirks rejects it
        quirk.version_below = "26.0";
        CHECK(quirk_applies(quirk, some_device()));
        quirk.version_from = "25.1";
        CHECK_FALSE(quirk_applies(quirk, some_device()));
        quirk.version_from.reset();
        quirk.vendor_id = 1;
        CHECK_FALSE(quirk_applies(quirk, some_device()));
    }

    TEST_CASE("matrix units of Intel's GPUs in Mesa: where the hardware has them only") {
        const auto quirks = built_in_quirks();
        REQUIRE(quirks.ok());
        const auto keeps = [&](const char* name, uint32_t device_id) {
            Capabilities c = some_device();
            c.device_name = name;
            c.vendor_id = 0x8086;
            c.device_id = device_id;
            c.driver_id = 6;
            REQUIRE(apply_quirks(c, quirks.value()).ok());
            return c.cooperative_matrix;
        };
        CHECK(keeps("Intel(R) Arc(tm) A770 Graphics (DG2)", 0x56a0));
        CHECK(keeps("Intel(R) Graphics (BMG G21)", 0xe20b));
        CHECK(keeps("Intel(R) Graphics (LNL)", 0x64a0));
        CHECK(keeps("Intel(R) Graphics (ARL)", 0x7d51)); // Arrow Lake H
        CHECK_FALSE(keeps("Intel(R) Graphics (ARL)", 0x7d67));
        CHECK_FALSE(keeps("Intel(R) Arc(tm) Graphics (MTL)", 0x7d55));
        CHECK_FALSE(keeps("Intel(R) Iris(R) Xe Graphics (TGL GT2)", 0x9a49));
        CHECK_FALSE(keeps("Intel(R) UHD Graphics (ADL-S GT1)", 0x4680));
        CHECK_FALSE(keeps("Intel(R) Graphics (PTL)", 0xb080)); // wrong results
    }

    TEST_CASE("versions in drivers' own formats") {
        CHECK(version_in_text("Mesa 25.0.7-2 (LLVM 19.1.7)") == std::vector<uint32_t>{25, 0, 7});
        CHECK(version_in_text("550.54.14") == std::vector<uint32_t>{550, 54, 14});
        CHECK(version_in_text("driver 7").empty());
        CHECK(version_in_text("v2 of 3.4") == std::vector<uint32_t>{3, 4});
        CHECK(version_in_text("").empty());
    }

    TEST_CASE("a quirk clears bits and reports it; bits that depend on them are cleared too") {
        Capabilities c = some_device();
        const auto quirks = parse_quirks(
            R"({"quirks": [{"vendor_id": 4098, "takes": ["cooperative_matrix"], "reason": "wrong", "link": "https://x"}]})");
        REQUIRE(quirks.ok());
        REQUIRE(apply_quirks(c, quirks.value()).ok());
        CHECK_FALSE(c.cooperative_matrix);
        CHECK_FALSE(c.bfloat16_cooperative_matrix);
        CHECK_FALSE(c.cooperative_matrix_elements);
        CHECK(c.matrix_shapes.empty());
        CHECK(c.bfloat16);
        REQUIRE(c.taken_away.size() == 3);
        CHECK(c.taken_away[0] == "cooperative_matrix: wrong (https://x)");
    }

    TEST_CASE("invalid quirk tables are rejected") {
        for (const char* text :
             {"", "[]", "{\"quirk\": []}", R"({"quirks": [{"takes": ["float17"], "reason": "a", "link": "b"}]})",
              R"({"quirks": [{"takes": ["float16"], "reason": "a"}]})", R"({"quirks": [{"vendor": 3}]})",
              R"({"quirks": [{"vendor_id": -3, "takes": ["float16"], "reason": "a", "link": "b"}]})",
              R"({"quirks": [{"version_from": "x", "takes": ["float16"], "reason": "a", "link": "b"}]})",
              R"({"quirks": [{"device_contains": [], "takes": ["float16"], "reason": "a", "link": "b"}]})",
              R"({"quirks": [{"device_contains": [3], "takes": ["float16"], "reason": "a", "link": "b"}]})",
              R"({"quirks": [3]})", R"({"quirks": [{"takes": "float16"}]})"}) {
            CAPTURE(text);
            CHECK_FALSE(parse_quirks(text).ok());
        }
    }

    TEST_CASE("overrides lower limits and clear bits, never raise them") {
        Capabilities c = some_device();
        CapabilityOverrides overrides;
        overrides.disable = {"float16", "timestamps"};
        overrides.shared_memory_bytes = 16384;
        overrides.max_groups = 10;
        REQUIRE(apply_overrides(c, overrides).ok());
        CHECK_FALSE(c.float16);
        CHECK_FALSE(c.timestamps);
        CHECK(c.storage_16bit);
        CHECK(c.shared_memory_bytes == 16384);
        CHECK(c.max_groups == std::array<uint32_t, 3>{10, 10, 10});
        CHECK(c.taken_away.size() == 6);
        overrides = {};
        overrides.shared_memory_bytes = 1 << 20;
        CHECK(apply_overrides(c, overrides).code() == Code::invalid_argument);
        overrides = {};
        overrides.disable = {"flaot16"};
        const Status status = apply_overrides(c, overrides);
        CHECK(status.code() == Code::invalid_argument);
        CHECK(status.message().find("did you mean \"float16\"") != std::string::npos);
    }

    TEST_CASE("every bit can be found by its name") {
        const Capabilities c;
        for (const std::string_view name : capability_names()) CHECK(find_capability(c, name) != nullptr);
        CHECK(find_capability(c, "nothing") == nullptr);
    }

    TEST_CASE("a host's features are read in both of Vulkan's forms") {
        VkPhysicalDeviceVulkan13Features v13{};
        v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
        v13.synchronization2 = VK_TRUE;
        VkPhysicalDeviceVulkan12Features v12{};
        v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
        v12.pNext = &v13;
        v12.bufferDeviceAddress = VK_TRUE;
        v12.timelineSemaphore = VK_TRUE;
        v12.scalarBlockLayout = VK_TRUE;
        VkPhysicalDeviceFeatures2 features{};
        features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
        features.pNext = &v12;
        features.features.shaderInt64 = VK_TRUE;
        VkDeviceCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        info.pNext = &features;
        const Features wide = enabled_features(info, VK_API_VERSION_1_3);
        CHECK(missing_baseline(wide).empty());
        CHECK_FALSE(wide.shader_float16);
        // On 1.2 the extension must be enabled too.
        CHECK(missing_baseline(enabled_features(info, VK_API_VERSION_1_2)) ==
              std::vector<std::string>{"synchronization2"});
        const char* extensions[] = {VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME};
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = extensions;
        CHECK(missing_baseline(enabled_features(info, VK_API_VERSION_1_2)).empty());

        const FeatureChain narrow(wide);
        VkDeviceCreateInfo other{};
        other.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        other.pNext = narrow.first();
        CHECK(enabled_features(other, VK_API_VERSION_1_3) == wide);
        other.pNext = nullptr;
        CHECK(missing_baseline(enabled_features(other, VK_API_VERSION_1_3)).size() == 4);
        other.pEnabledFeatures = &features.features; // the form of 1.0
        CHECK(enabled_features(other, VK_API_VERSION_1_3).shader_int64);
    }

    TEST_CASE("required features are added to a host's chain: set in an existing structure, or in a new one") {
        Features everything;
        for (const Requirement& r : all_requirements()) everything.*r.feature = true;
        const auto linked = [](const VkDeviceCreateInfo& info) {
            std::vector<VkStructureType> types;
            for (auto* at = static_cast<const VkBaseInStructure*>(info.pNext); at != nullptr; at = at->pNext)
                types.push_back(at->sType);
            return types;
        };
        const auto once = [](std::vector<VkStructureType> types) {
            std::ranges::sort(types);
            return std::ranges::adjacent_find(types) == types.end();
        };
        VkDeviceCreateInfo empty{};
        empty.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        for (const uint32_t version : {VK_API_VERSION_1_2, VK_API_VERSION_1_3}) {
            CAPTURE(version);
            { // a host that enables nothing
                VkDeviceCreateInfo info = empty;
                FeatureMerge merge;
                merge.apply(everything, version, info);
                CHECK(enabled_features(info, version) == everything);
                CHECK(once(linked(info)));
                const uint32_t count = info.enabledExtensionCount;
                const std::vector<VkStructureType> before = linked(info);
                merge.apply(everything, version, info); // a second merge changes nothing
                CHECK(info.enabledExtensionCount == count);
                CHECK(linked(info) == before);
            }
            { // the form of 1.0: enabled features stay, and the host's own structure is not modified
                VkPhysicalDeviceFeatures hosts{};
                hosts.geometryShader = VK_TRUE;
                VkDeviceCreateInfo info = empty;
                info.pEnabledFeatures = &hosts;
                FeatureMerge merge;
                merge.apply(everything, version, info);
                CHECK(info.pEnabledFeatures->geometryShader == VK_TRUE);
                CHECK(info.pEnabledFeatures->shaderInt64 == VK_TRUE);
                CHECK(hosts.shaderInt64 == VK_FALSE);
                CHECK(enabled_features(info, version) == everything);
            }
            { // the combined structures, which must not be used together with the ones they replace
                VkPhysicalDeviceVulkan13Features v13{};
                v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
                VkPhysicalDeviceVulkan12Features v12{};
                v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
                v12.pNext = &v13;
                v12.drawIndirectCount = VK_TRUE;
                VkPhysicalDeviceVulkan11Features v11{};
                v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
                v11.pNext = &v12;
                VkPhysicalDeviceFeatures2 features{};
                features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
                features.pNext = &v11;
                const char* extensions[] = {"VK_KHR_swapchain"};
                VkDeviceCreateInfo info = empty;
                info.pNext = &features;
                info.enabledExtensionCount = 1;
                info.ppEnabledExtensionNames = extensions;
                FeatureMerge merge;
                merge.apply(everything, version, info);
                CHECK(enabled_features(info, version) == everything);
                CHECK(features.features.shaderInt64 == VK_TRUE);
                CHECK(v12.bufferDeviceAddress == VK_TRUE);
                CHECK(v12.drawIndirectCount == VK_TRUE);
                CHECK(v13.synchronization2 == VK_TRUE);
                CHECK(info.pEnabledFeatures == nullptr);
                CHECK(std::string_view(info.ppEnabledExtensionNames[0]) == "VK_KHR_swapchain");
                CHECK(linked(info).size() == 4 + 4); // four extensions have their own structures
            }
        }
    }

} // suite
