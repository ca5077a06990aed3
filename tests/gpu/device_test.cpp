#include "test_context.hpp"

#include <cstdlib>

using namespace hekla;
using namespace hekla::gpu;
using namespace hekla::test;

TEST_CASE("a device is created, described and destroyed without validation messages") {
    std::vector<std::string> lines;
    ContextOptions options = validated();
    options.device.log = Log([&](Severity, std::string_view line) { lines.emplace_back(line); });
    {
        Context context = make(options);
        const Capabilities& c = context.capabilities();
        CHECK_FALSE(c.device_name.empty());
        CHECK(c.subgroup_size >= 1);
        CHECK(c.shared_memory_bytes >= 16384);
        CHECK(c.max_groups[0] >= 65535);
        CHECK(c.max_allocation_bytes > 0);
        CHECK(c.device_memory_bytes > 0);
        CHECK(c.device_uuid != std::array<uint8_t, 16>{});
        CHECK(context.device->owned());
        if (c.type == DeviceType::cpu) CHECK(context.device->chosen_for_lack_of_another());
        check_silent(context);
    }
    CHECK_MESSAGE(lines.empty(), lines[0]);
}

TEST_CASE("lavapipe's subgroups follow the vector width") {
    const char* width = std::getenv("LP_NATIVE_VECTOR_WIDTH");
    Context context = make();
    if (!width || context.capabilities().driver_name != "llvmpipe") return;
    CHECK(context.capabilities().subgroup_size * 32 == static_cast<uint32_t>(std::atoi(width)));
}

TEST_CASE("devices are listed and selected by index, name and part of a name") {
    const std::vector<DeviceInfo> list = take(Device::list());
    REQUIRE_FALSE(list.empty());
    const DeviceInfo* usable = nullptr;
    for (const DeviceInfo& info : list) {
        CHECK((info.usable || !info.why_not.empty()));
        if (info.usable && !usable) usable = &info;
    }
    REQUIRE(usable);
    DeviceOptions options;
    options.select = std::to_string(usable->index);
    const auto by_index = take(Device::create_own(options));
    CHECK(by_index->capabilities().device_name == usable->name);
    CHECK_FALSE(by_index->chosen_for_lack_of_another());
    options.select = "no such device";
    const auto none = Device::create_own(options);
    CHECK(none.code() == Code::not_found);
    CHECK(none.message().find(usable->name) != std::string::npos);
    options.select = "9999";
    CHECK(Device::create_own(options).code() == Code::not_found);
}

TEST_CASE("overrides reach the capabilities of a device") {
    DeviceOptions options;
    options.overrides.shared_memory_bytes = 16384;
    options.overrides.disable = {"storage_16bit", "float16", "timestamps"};
    const auto device = take(Device::create_own(options));
    CHECK(device->capabilities().shared_memory_bytes == 16384);
    CHECK_FALSE(device->capabilities().storage_16bit);
    CHECK_FALSE(device->capabilities().timestamps);
    options.overrides.disable = {"no_such_bit"};
    CHECK(Device::create_own(options).code() == Code::invalid_argument);
}

TEST_CASE("a host's device is wrapped: its enabled features count, its queue lock is called") {
    // One of our devices plays the host's.
    ContextOptions options = validated();
    Context host = make(options);
    const DeviceRequirements requirements = take(query_requirements(host.device->functions().vkGetInstanceProcAddr,
                                                                    host.device->instance(), host.device->physical()));
    CHECK(missing_baseline(requirements.required).empty());
    CHECK(requirements.useful == host.device->features());

    Features enabled = host.device->features();
    enabled.shader_float16 = false; // the host did not report it
    const FeatureChain chain(enabled);
    const std::vector<const char*> extensions = required_extensions(enabled, host.device->api_version());
    int locks = 0;
    int held = 0;
    WrappedDevice wrapped;
    wrapped.get_instance_proc_addr = host.device->functions().vkGetInstanceProcAddr;
    wrapped.instance = host.device->instance();
    wrapped.physical_device = host.device->physical();
    wrapped.device = host.device->handle();
    host.device->with_queue([&](VkQueue queue) { wrapped.queue = queue; });
    wrapped.queue_family = host.device->queue_family();
    wrapped.api_version = host.device->api_version();
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = chain.first();
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    wrapped.created_with = &info;
    wrapped.lock_queue = [&] {
        ++locks;
        ++held;
    };
    wrapped.unlock_queue = [&] { --held; };
    {
        const auto device = take(Device::wrap(wrapped));
        CHECK_FALSE(device->owned());
        CHECK_FALSE(device->capabilities().float16);
        CHECK(device->capabilities().storage_16bit == host.capabilities().storage_16bit);
        Context inside = take(create_context(device));
        const std::vector<float> y = take(axpy(inside, 2, {1, 2, 3}, {10, 20, 30}));
        CHECK(y == std::vector<float>{12, 24, 36});
        CHECK(locks > 0);
        CHECK(held == 0);
    }
    // The host's own device continues to work.
    CHECK(take(axpy(host, 3, {1}, {1})) == std::vector<float>{4});
    check_silent(host);

    Features poor = enabled;
    poor.buffer_device_address = false;
    const FeatureChain poor_chain(poor);
    info.pNext = poor_chain.first();
    const auto refused = Device::wrap(wrapped);
    CHECK(refused.code() == Code::failed_precondition);
    CHECK(refused.message().find("VkPhysicalDeviceVulkan12Features::bufferDeviceAddress") != std::string::npos);
    info.pNext = chain.first();
    wrapped.queue_family = 77;
    CHECK(Device::wrap(wrapped).message().find("queue family 77") != std::string::npos);
    wrapped.queue = VK_NULL_HANDLE;
    CHECK(Device::wrap(wrapped).code() == Code::invalid_argument);
}

TEST_CASE("recording into a host's command buffer") {
    Context context = make();
    const Functions& f = context.device->functions();
    const Buffer buffer = take(context.memory->create_buffer(1024, Residence::readback, "target"));
    const auto pool = take(CommandPool::create(context.device));
    CommandBuffer secondary = take(pool->allocate(Level::secondary));
    HK_REQUIRE_OK(secondary.begin(true));
    secondary.fill(buffer, 0, 1024, 0x01020304);
    secondary.barrier(VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT, VK_ACCESS_2_TRANSFER_WRITE_BIT,
                      VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT);
    HK_REQUIRE_OK(secondary.end());

    CommandBuffer hosts = take(pool->allocate(Level::primary)); // begun, ended and submitted by hand, as by a host
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    REQUIRE(f.vkBeginCommandBuffer(hosts.handle(), &begin) == VK_SUCCESS);
    {
        CommandBuffer borrowed = CommandBuffer::borrow(context.device, hosts.handle());
        borrowed.barrier();
        borrowed.execute(secondary);
        HK_REQUIRE_OK(borrowed.end());
        CHECK(borrowed.begin().code() == Code::failed_precondition);
    }
    REQUIRE(f.vkEndCommandBuffer(hosts.handle()) == VK_SUCCESS);
    VkCommandBufferSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO;
    info.commandBuffer = hosts.handle();
    VkSubmitInfo2 submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
    submit.commandBufferInfoCount = 1;
    submit.pCommandBufferInfos = &info;
    REQUIRE(context.device->with_queue(
                [&](VkQueue queue) { return f.vkQueueSubmit2(queue, 1, &submit, VK_NULL_HANDLE); }) == VK_SUCCESS);
    HK_REQUIRE_OK(context.device->wait_idle());
    HK_REQUIRE_OK(buffer.invalidate(0, 1024));
    for (std::size_t i = 0; i < 1024; ++i) REQUIRE(static_cast<int>(buffer.host()[i]) == 4 - static_cast<int>(i % 4));
    check_silent(context);
}
