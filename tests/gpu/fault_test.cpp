// Every Vulkan call that can fail is made to fail: a Status each time, without leaks and crashes.
#include "test_context.hpp"

#include "fault_driver.hpp"
#include "measure.hpp"

#include <set>

using namespace hekla;
using namespace hekla::gpu;
using namespace hekla::test;

namespace {

ContextOptions on_faults() {
    ContextOptions options;
    options.device.get_instance_proc_addr = FaultDriver::get_instance_proc_addr;
    return options;
}

// Uses every feature of the room once: staging, a pipeline, a dispatch, a timer, a saved cache.
Status everything(const std::filesystem::path& cache) {
    ContextOptions options = on_faults();
    options.cache = folder_cache(cache);
    options.memory.allow_mapped_device = false;
    HK_ASSIGN(Context context, create_context(options));
    HK_ASSIGN(const std::vector<float> y, axpy(context, 2, {1, 2, 3}, {1, 1, 1}));
    if (y != std::vector<float>{3, 5, 7}) return internal_error("wrong numbers");
    HK_ASSIGN(const Buffer buffer, context.memory->create_buffer(1 << 20, Residence::device, "large"));
    const std::vector<std::byte> bytes(100000);
    HK_ASSIGN(const std::shared_ptr<Staging> staging, Staging::create(context.memory, context.queue, 16384));
    HK_TRY(staging->upload(buffer, 0, bytes));
    HK_TRY(staging->fill(buffer, 0, 4096, 1));
    HK_ASSIGN(const std::shared_ptr<CommandPool> pool, CommandPool::create(context.device));
    HK_ASSIGN(CommandBuffer commands, pool->allocate(Level::secondary));
    HK_TRY(commands.begin());
    commands.fill(buffer, 0, 1 << 20, 3);
    HK_TRY(commands.end());
    HK_TRY(measure(*context.queue, commands, 0, 2).status());
    HK_TRY(context.queue->wait_all());
    HK_TRY(context.device->wait_idle());
    return context.pipelines->save();
}

} // namespace

TEST_CASE("each call that can fail, at each of its occurrences") {
    FaultDriver& driver = FaultDriver::get();
    const TestFolder folder;
    driver.reset();
    HK_REQUIRE_OK(everything(folder.path() / "all"));
    CHECK_MESSAGE(driver.leaks().empty(), driver.leaks());
    std::map<std::string, uint64_t> turns;
    for (const std::string& name : functions_that_can_fail()) turns[name] = driver.calls(name);

    int cases = 0;
    std::set<std::string> never;
    for (const auto& [name, calls] : turns) {
        if (calls == 0) never.insert(name);
        for (const VkResult result : {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST, VK_ERROR_UNKNOWN}) {
            // The first few occurrences and the last, since those in the middle of a long loop are alike.
            for (uint64_t nth = 1; nth <= calls; nth = nth == 3 && calls > 5 ? calls - 1 : nth + 1) {
                CAPTURE(name);
                CAPTURE(nth);
                CAPTURE(result);
                FaultPlan plan;
                plan.faults = {{name, nth, result}};
                driver.reset(plan);
                const Status status = everything(folder.path() / "failing");
                // The number of new command buffers depends on how fast the device completes the previous ones, and so
                // does how often it is asked for those.
                const bool by_speed = nth > 2 || name == "vkGetSemaphoreCounterValue";
                if (by_speed && !driver.fault_happened()) {
                    CHECK_MESSAGE(status.ok(), status.message());
                    continue;
                }
                REQUIRE(driver.fault_happened());
                ++cases;
                // The allocator tries another memory type or a dedicated block, and everything() has checked the
                // numbers; the last waits are in destructors, which cannot report errors.
                const bool may_recover = name == "vkAllocateMemory" || name == "vkMapMemory" ||
                                         ((name == "vkDeviceWaitIdle" || name == "vkWaitSemaphores") && nth == calls);
                if (!may_recover) CHECK_FALSE(status.ok());
                if (!status.ok()) {
                    CHECK_FALSE(status.message().empty());
                    if (result == VK_ERROR_DEVICE_LOST) CHECK(status.code() == Code::device_lost);
                    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY) CHECK(status.code() == Code::out_of_memory);
                }
                CHECK_MESSAGE(driver.leaks().empty(), driver.leaks());
                CHECK(driver.memory_in_use() == 0);
            }
        }
    }
    MESSAGE(cases, " faults; never called here: ", never.size());
    // Images, host query pools and the like are in the allocator's table and unused; nothing else may be missing.
    const std::set<std::string> unused{
        "vkBindBufferMemory2", "vkBindImageMemory", "vkBindImageMemory2", "vkCreateImage", "vkResetCommandPool",
        "vkResetCommandBuffer", "vkQueueWaitIdle", "vkCreateDebugUtilsMessengerEXT", "vkSetDebugUtilsObjectNameEXT",
        "vkEnumerateInstanceLayerProperties", "vkFlushMappedMemoryRanges", "vkInvalidateMappedMemoryRanges",
        "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
        "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
        // The driver of a CPU reports nothing about its pipelines.
        "vkGetPipelineExecutablePropertiesKHR", "vkGetPipelineExecutableStatisticsKHR",
        "vkGetPipelineExecutableInternalRepresentationsKHR"};
    for (const std::string& name : never) CHECK_MESSAGE(unused.contains(name), name);
    driver.reset();
}

TEST_CASE("a lost device stays lost, reports why, and everything is still released") {
    FaultDriver& driver = FaultDriver::get();
    for (const bool after : {false, true}) {
        driver.reset();
        {
            Context context = make(on_faults());
            Buffer buffer = take(context.memory->create_buffer(1 << 22, Residence::device, "data"));
            const auto pool = take(CommandPool::create(context.device));
            CommandBuffer commands = take(pool->allocate(Level::secondary));
            HK_REQUIRE_OK(commands.begin());
            for (int i = 0; i < 20; ++i) {
                commands.fill(buffer, 0, 1 << 22, 1);
                commands.barrier();
            }
            HK_REQUIRE_OK(commands.end());
            HK_REQUIRE_OK(context.queue->submit(commands).status());
            driver.fail_next(after ? "vkQueueSubmit2" : "vkWaitSemaphores", 1, VK_ERROR_DEVICE_LOST, after);
            const Status lost =
                after ? context.queue->submit(std::span<const Segment>()).status() : context.queue->wait_all();
            CHECK(lost.code() == Code::device_lost);
            CHECK(lost.message().find(context.capabilities().device_name) != std::string::npos);
            CHECK(context.device->lost());
            // From now on everything fails with the same message, without calling Vulkan.
            const uint64_t submits = driver.calls("vkQueueSubmit2");
            CHECK(context.queue->submit(commands).status().message() == lost.message());
            CHECK(context.queue->wait_all().code() == Code::device_lost);
            CHECK(context.queue->reached(1).code() == Code::device_lost);
            CHECK(context.memory->create_buffer(64, Residence::device, "late").code() == Code::device_lost);
            CHECK(context.pipelines->get({shader("axpy"), {64, 0}}).code() == Code::device_lost);
            CHECK(context.pipelines->save().code() == (context.pipelines->compiled() ? Code::device_lost : Code::ok));
            CHECK(commands.begin().code() == Code::device_lost);
            CHECK(CommandPool::create(context.device).code() == Code::device_lost);
            CHECK(Queue::create(context.device).code() == Code::device_lost);
            std::vector<std::byte> bytes(64);
            CHECK(context.staging->download(buffer, 0, std::span(bytes)).code() == Code::device_lost);
            CHECK(context.device->wait_idle().code() == Code::device_lost);
            CHECK(driver.calls("vkQueueSubmit2") == submits);
        }
        CHECK_MESSAGE(driver.leaks().empty(), driver.leaks());
        // A new device works.
        driver.reset();
        Context fresh = make(on_faults());
        CHECK(take(axpy(fresh, 1, {1}, {1})) == std::vector<float>{2});
    }
}

TEST_CASE("a driver that reports success without returning a pipeline") {
    FaultDriver& driver = FaultDriver::get();
    driver.reset({.faults = {{"vkCreateComputePipelines", 1, VK_PIPELINE_COMPILE_REQUIRED}}});
    Context context = make(on_faults());
    const auto refused = context.pipelines->get({shader("axpy"), {64, 0}});
    CHECK(refused.code() == Code::internal);
    CHECK(refused.message().find("gave no pipeline") != std::string::npos);
    CHECK(context.pipelines->get({shader("axpy"), {64, 0}}).ok());
}

TEST_CASE("a driver with little memory") {
    FaultDriver& driver = FaultDriver::get();
    FaultPlan plan;
    plan.memory_cap = 200 << 20;
    plan.allocation_cap = 64 << 20;
    plan.max_allocation_bytes = 64 << 20;
    driver.reset(plan);
    {
        Context context = make(on_faults());
        CHECK(context.memory->max_buffer_bytes() < 64 << 20);
        std::vector<Buffer> buffers;
        Status status;
        while (status.ok() && buffers.size() < 100) {
            auto made = context.memory->create_buffer(10 << 20, Residence::device, "block");
            status = made.status();
            if (made.ok()) buffers.push_back(made.take());
        }
        CHECK(status.code() == Code::out_of_memory);
        CHECK_MESSAGE(status.message().find("block") != std::string::npos, status.message());
        CHECK(buffers.size() >= 10);
        CHECK(driver.memory_in_use() <= plan.memory_cap);
        buffers.clear();
        CHECK(context.memory->create_buffer(50 << 20, Residence::device, "one").ok());
    }
    CHECK(driver.memory_in_use() == 0);
    CHECK_MESSAGE(driver.leaks().empty(), driver.leaks());
}

TEST_CASE("a smaller device: missing features are not enabled, not used, and reported") {
    FaultDriver& driver = FaultDriver::get();
    FaultPlan plan;
    plan.hidden_features = {"shaderFloat16",
                            "storageBuffer16BitAccess",
                            "subgroupSizeControl",
                            "computeFullSubgroups",
                            "vulkanMemoryModel",
                            "cooperativeMatrix",
                            "storageBuffer8BitAccess",
                            "shaderInt8",
                            "shaderInt16",
                            "maintenance4"};
    plan.hidden_extensions = {"VK_EXT_memory_budget"};
    plan.shared_memory_bytes = 16384;
    plan.max_groups = 65535;
    plan.max_workgroup_invocations = 128;
    plan.timestamp_bits = 0;
    plan.device_type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    driver.reset(plan);
    {
        ContextOptions options = on_faults();
        options.device.validation = Validation::on;
        Context context = make(options);
        const Capabilities& c = context.capabilities();
        for (const char* name : {"float16", "storage_16bit", "storage_8bit", "int8", "int16", "subgroup_size_control",
                                 "full_subgroups", "memory_model", "cooperative_matrix", "spirv_1_6", "memory_budget",
                                 "mapped_device_memory", "timestamps"}) {
            CAPTURE(name);
            CHECK_FALSE(*find_capability(c, name));
        }
        CHECK(c.shared_memory_bytes == 16384);
        CHECK(c.min_subgroup_size == c.subgroup_size);
        CHECK(c.type == DeviceType::discrete);
        CHECK_FALSE(context.device->chosen_for_lack_of_another());
        CHECK(take(axpy(context, 2, std::vector<float>(500, 1), std::vector<float>(500, 1))) ==
              std::vector<float>(500, 3));
        CHECK(context.pipelines->get({shader("count.f16"), {}}).code() == Code::unsupported);
        CHECK(context.pipelines->get({shader("axpy"), {256, 0}}).code() == Code::unsupported);
        CHECK(context.pipelines->get({shader("axpy.new"), {64, 0}}).code() == Code::unsupported);
    }
    driver.reset();
}

TEST_CASE("Vulkan 1.2 with VK_KHR_synchronization2 is enough; otherwise the reason is reported") {
    FaultDriver& driver = FaultDriver::get();
    driver.reset({.api_version = VK_API_VERSION_1_2});
    {
        Context context = make(on_faults());
        CHECK(context.device->api_version() < VK_API_VERSION_1_3);
        CHECK(take(axpy(context, 2, {1}, {1})) == std::vector<float>{3});
    }
    const auto refused = [&](FaultPlan plan, Code code, std::string_view word) {
        driver.reset(std::move(plan));
        const auto context = create_context(on_faults());
        CHECK(context.code() == code);
        CHECK_MESSAGE(context.message().find(word) != std::string::npos, context.message());
        CHECK_MESSAGE(driver.leaks().empty(), driver.leaks());
    };
    refused({.hidden_extensions = {"VK_KHR_synchronization2"}, .api_version = VK_API_VERSION_1_2}, Code::unsupported,
            "synchronization2");
    refused({.api_version = VK_API_VERSION_1_1}, Code::unsupported, "1.1");
    refused({.no_devices = true}, Code::not_found, "no device");
    refused({.max_workgroup_invocations = 64}, Code::unsupported, "workgroups of 128 invocations (64 are possible)");
    refused({.shared_memory_bytes = 8192}, Code::unsupported,
            "16384 bytes of shared memory per workgroup (it has 8192)");
    refused({.subgroup_operations = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT},
            Code::unsupported, "subgroup_ballot in compute shaders, subgroup_shuffle in compute shaders");
    for (const char* feature : {"bufferDeviceAddress", "timelineSemaphore", "scalarBlockLayout", "synchronization2"}) {
        refused({.hidden_features = {feature}}, Code::unsupported, feature);
    }
    driver.reset();
}
