// A device created by the host, through the C API alone.
#include "host.hpp"
#include "support/test_folder.hpp"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

namespace device_test {

using namespace hekla::test;

namespace {

constexpr const char* kModel = "bert-classifier";
constexpr uint64_t kSecond = 1'000'000'000;

hk_context without_device() {
    const std::string folder = HEKLA_PLUGIN_FOLDER;
    const hk_string plugins{folder.data(), folder.size()};
    hk_context_options options{};
    options.struct_size = sizeof options;
    options.plugin_folders = &plugins;
    options.plugin_folder_count = 1;
    options.device_kind = HK_DEVICE_NONE;
    hk_context context{};
    REQUIRE(hk_context_create(&options, &context, nullptr) == HK_OK);
    return context;
}

std::vector<float> embedded(hk_context context, bool reference = false) {
    Embedding result;
    const Error error;
    const int32_t code = embed(context, kModel, result, error, reference);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    REQUIRE(!result.values.empty());
    return result.values;
}

} // namespace

TEST_CASE("a model runs on the host's device as on Hekla's own, with the host's queue lock, and releases everything") {
    FaultDriver::get().reset();
    Host host;
    hk_context context{};
    const Error error;
    const int32_t made = host.context(context, error);
    REQUIRE_MESSAGE(made == HK_OK, error.message());
    CHECK(hk_context_device(context).size > 0);
    const std::vector<float> wrapped = embedded(context);
    CHECK(host.locks > 0);

    hk_context_options options{};
    options.struct_size = sizeof options;
    const std::string folder = HEKLA_PLUGIN_FOLDER;
    const hk_string plugins{folder.data(), folder.size()};
    options.plugin_folders = &plugins;
    options.plugin_folder_count = 1;
    hk_context own{};
    REQUIRE(hk_context_create(&options, &own, error) == HK_OK);
    CHECK(embedded(own) == wrapped); // two devices, two contexts, the same bits
    hk_context_destroy(own);

    CHECK(embedded(context) == wrapped);
    REQUIRE(hk_device_release(context, 10 * kSecond, error) == HK_OK);
    CHECK(FaultDriver::get().leaks().empty());
    const uint64_t calls = FaultDriver::get().calls();
    Embedding none;
    CHECK(embed(context, kModel, none, error) == HK_FAILED_PRECONDITION);
    CHECK(error.says("was released"));
    CHECK(hk_device_release(context, kSecond, error) == HK_OK);
    CHECK(embedded(context, true).size() == wrapped.size()); // the interpreter needs no device
    hk_context_destroy(context);
    CHECK(FaultDriver::get().calls() == calls); // Vulkan was not called again
}

TEST_CASE("a device on demand is created by the first call with valid input") {
    const auto on_demand = [] {
        hk_context context{};
        const Error error;
        const int32_t made =
            make_context(context, error, [](hk_context_options& o) { o.device_kind = HK_DEVICE_ON_DEMAND; });
        REQUIRE_MESSAGE(made == HK_OK, error.message());
        return context;
    };
    const hk_context context = on_demand();
    const Error error;
    hk_train_options training{};
    training.struct_size = sizeof training;
    training.recipe = {"missing.toml", 12};
    CHECK(hk_train(context, &training, nullptr, error) != HK_OK);
    CHECK(error.says("missing.toml"));
    hk_evaluate_options evaluation{};
    evaluation.struct_size = sizeof evaluation;
    evaluation.recipe = training.recipe;
    CHECK(hk_evaluate(context, &evaluation, error) != HK_OK);
    hk_generate_options generation{};
    hk_generate_defaults(&generation);
    generation.model = {"missing", 7};
    CHECK(hk_generate(context, &generation, nullptr, error) != HK_OK);
    CHECK(error.says("missing"));
    CHECK(hk_context_device(context).size == 0);
    CHECK(!embedded(context, true).empty()); // the interpreter
    CHECK(hk_context_device(context).size == 0);
    CHECK(!embedded(context).empty());
    CHECK(hk_context_device(context).size > 0);
    hk_context_destroy(context);

    const hk_context released = on_demand(); // before a device exists
    REQUIRE(hk_device_release(released, kSecond, error) == HK_OK);
    Embedding none;
    CHECK(embed(released, kModel, none, error) == HK_FAILED_PRECONDITION);
    CHECK(error.says("was released"));
    hk_context_destroy(released);
}

TEST_CASE("only the required features are enabled, at Vulkan 1.2") {
    FaultDriver::get().reset();
    Host host(VK_API_VERSION_1_2, false);
    std::vector<std::string> extensions(host.info.ppEnabledExtensionNames,
                                        host.info.ppEnabledExtensionNames + host.info.enabledExtensionCount);
    CHECK(extensions == std::vector<std::string>{"VK_KHR_synchronization2"});
    hk_context context{};
    const Error error;
    const int32_t made = host.context(context, error);
    REQUIRE_MESSAGE(made == HK_OK, error.message());
    const std::vector<float> on_device = embedded(context), exact = embedded(context, true);
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(on_device[i] == doctest::Approx(exact[i]).epsilon(1e-4));
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a feature that was not enabled is named with its structure, its extension and the reason") {
    FaultDriver::get().reset();
    Host host;
    hk_context context{};
    const Error error;
    const VkDeviceCreateInfo complete = host.info;
    VkPhysicalDeviceVulkan12Features v12{};
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    v12.timelineSemaphore = VK_TRUE;
    host.info.pNext = &v12;
    host.info.pEnabledFeatures = nullptr;
    CHECK(host.context(context, error) == HK_FAILED_PRECONDITION);
    for (const char* part :
         {"VkPhysicalDeviceBufferDeviceAddressFeatures::bufferDeviceAddress",
          "VkPhysicalDeviceVulkan12Features::bufferDeviceAddress", "VkPhysicalDeviceVulkan13Features::synchronization2",
          "every kernel reads its tensors through addresses"})
        CHECK_MESSAGE(error.says(part), error.message());
    CHECK(!error.says("timelineSemaphore"));
    CHECK(!error.says("shaderInt64"));
    CHECK(context.id == 0);
    // In a 1.2 instance, 1.3's core features are extensions.
    host.wrapped.api_version = VK_API_VERSION_1_2;
    CHECK(host.context(context, error) == HK_FAILED_PRECONDITION);
    CHECK_MESSAGE(error.says("enable the extension VK_KHR_synchronization2"), error.message());
    host.wrapped.api_version = VK_API_VERSION_1_1;
    CHECK(host.context(context, error) == HK_UNSUPPORTED);
    CHECK(error.says("VkApplicationInfo::apiVersion"));
    host.wrapped.api_version = VK_API_VERSION_1_3;
    host.info = complete;
    host.wrapped.queue_family = 99;
    CHECK(host.context(context, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("queue family 99"));
    host.wrapped.queue_family = host.family;
    host.wrapped.unlock_queue = nullptr;
    CHECK(host.context(context, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("both or neither"));
    for (void* hk_vulkan_device::*handle : {&hk_vulkan_device::instance, &hk_vulkan_device::physical_device,
                                            &hk_vulkan_device::device, &hk_vulkan_device::queue}) {
        hk_vulkan_device& given = host.wrapped;
        void* kept = std::exchange(given.*handle, nullptr);
        CHECK(host.context(context, error) == HK_INVALID_ARGUMENT);
        given.*handle = kept;
    }
    host.wrapped.struct_size = 8;
    CHECK(host.context(context, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("sizeof(hk_vulkan_device)"));
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("requirements are data: each with its structure and reason; the queue to create, and its cost") {
    FaultDriver::get().reset();
    Host host;
    const hk_physical_device where{sizeof where, VK_API_VERSION_1_3, Host::engine_loader(), host.instance,
                                   host.physical};
    hk_device_requirements needs{};
    const Error error;
    REQUIRE(hk_device_requirements_create(&where, &needs, error) == HK_OK);
    const uint64_t count = hk_device_requirements_count(needs);
    CHECK(count > 10);
    int required = 0;
    for (uint64_t i = 0; i < count; ++i) {
        hk_device_requirement one{};
        one.struct_size = sizeof one;
        REQUIRE(hk_device_requirements_get(needs, i, &one, error) == HK_OK);
        CHECK(std::strlen(one.why) > 5);
        CHECK((std::strlen(one.feature) > 0) == (std::strlen(one.structure) > 0));
        CHECK(std::strlen(one.feature) + std::strlen(one.extension) > 0);
        CHECK((one.required == 0 || one.supported != 0));
        required += one.required;
        CHECK((one.required != 0) == (i < 4)); // the required ones first
    }
    CHECK(required == 4);
    hk_device_requirement past{};
    past.struct_size = sizeof past;
    CHECK(hk_device_requirements_get(needs, count, &past, error) == HK_INVALID_ARGUMENT);
    hk_queue_advice advice{};
    advice.struct_size = sizeof advice;
    REQUIRE(hk_device_requirements_queue(needs, &advice, error) == HK_OK);
    CHECK(std::strlen(advice.costs) > 5);
    VkDeviceCreateInfo wrong{};
    CHECK(hk_device_requirements_merge(needs, 1, &wrong, error) == HK_INVALID_ARGUMENT);
    CHECK(hk_device_requirements_merge(needs, 1, nullptr, error) == HK_INVALID_ARGUMENT);
    hk_device_requirements_destroy(needs);
    CHECK(hk_device_requirements_count(needs) == 0);
    CHECK(hk_device_requirements_queue(needs, &advice, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("destroyed"));
    hk_device_requirements_destroy(needs); // a second call does nothing
}

TEST_CASE("handles: null, stale, of another kind; a second call during one; destroyed during a call") {
    FaultDriver::get().reset();
    const Error error;
    Embedding result;
    CHECK(embed(hk_context{0}, kModel, result, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("context is null"));
    CHECK(embed(hk_context{0x1234'5678'9ABC}, kModel, result, error) == HK_INVALID_ARGUMENT);
    CHECK(hk_context_device(hk_context{77}).size == 0);
    hk_context_destroy(hk_context{77});
    const hk_context context = without_device();
    CHECK(hk_device_requirements_count(hk_device_requirements{context.id}) == 0);
    CHECK(embed(context, kModel, result, error) == HK_FAILED_PRECONDITION);
    CHECK(error.says("without a device"));

    // From its own callback: another call, a release and finally the destruction of the context itself.
    result.during = [&] {
        Embedding inner;
        const Error inside;
        CHECK(embed(context, kModel, inner, inside, true) == HK_FAILED_PRECONDITION);
        CHECK(inside.says("another call runs"));
        CHECK(hk_device_release(context, kSecond, inside) == HK_FAILED_PRECONDITION);
        CHECK(inside.says("callback"));
        hk_context_destroy(context);
        CHECK(embed(context, kModel, inner, inside, true) == HK_INVALID_ARGUMENT);
        CHECK(inside.says("destroyed"));
    };
    CHECK(embed(context, kModel, result, error, true) == HK_CANCELLED);
    CHECK(embed(context, kModel, result, error, true) == HK_INVALID_ARGUMENT);
}

TEST_CASE("a training on another thread is stopped when the device is released") {
    FaultDriver::get().reset();
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    namespace fs = std::filesystem;
    const TestFolder folder;
    std::ofstream(folder / "text.txt") << std::string(4000, 'a') << " some text, some more text\n";
    std::ofstream(folder / "recipe.toml") << "[model]\narchitecture = \"gpt2\"\nn_embd = 16\nn_layer = 1\nn_head = 2\n"
                                             "n_positions = 16\n[objective]\nid = \"clm\"\n[head]\nid = \"lm\"\n"
                                             "[tokenizer]\nkind = \"char\"\n[data]\ntrain = "
                                          << (folder / "text.txt")
                                          << "\n[train]\nmax_steps = 1000000\ncontext_length = 16\n"
                                             "per_device_train_batch_size = 2\nsave_steps = 0\n[output]\ndir = "
                                          << (folder / "run") << "\n";
    const std::string recipe = (folder / "recipe.toml").string();
    std::atomic<int64_t> steps{0};
    int32_t code = HK_INTERNAL;
    hk_train_result result{};
    result.struct_size = sizeof result;
    const Error error;
    std::thread training([&] {
        hk_train_options options{};
        options.struct_size = sizeof options;
        options.recipe = {recipe.data(), recipe.size()};
        options.user = &steps;
        options.step = [](void* user, const hk_train_step* step) {
            static_cast<std::atomic<int64_t>*>(user)->store(step->step);
        };
        code = hk_train(context, &options, &result, error);
    });
    while (steps.load() < 2) std::this_thread::yield();
    const Error released;
    const int32_t gone = hk_device_release(context, 60 * kSecond, released);
    training.join();
    CHECK_MESSAGE(gone == HK_OK, released.message());
    CHECK_MESSAGE(code == HK_OK, error.message());
    CHECK(result.stopped == 1);
    // It can be resumed, as after any stop.
    CHECK(fs::exists(folder / "run" / ("checkpoint-" + std::to_string(result.steps)) / "model.safetensors"));
    CHECK(FaultDriver::get().leaks().empty());
    hk_context_destroy(context);
}

TEST_CASE("two contexts on one device of the host, on two threads") {
    FaultDriver::get().reset();
    Host host;
    hk_context first{}, second{};
    REQUIRE(host.context(first) == HK_OK);
    REQUIRE(host.context(second) == HK_OK);
    const std::vector<float> expected = embedded(first);
    std::vector<float> a, b;
    std::thread one([&] {
        for (int i = 0; i < 3; ++i) a = embedded(first);
    });
    std::thread two([&] {
        for (int i = 0; i < 3; ++i) b = embedded(second);
    });
    one.join();
    two.join();
    CHECK(a == expected);
    CHECK(b == expected);
    hk_context_destroy(second);
    CHECK(embedded(first) == expected);
    hk_context_destroy(first);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a thousand contexts are created and destroyed" * doctest::test_suite("long")) {
    for (int i = 0; i < 1000; ++i) hk_context_destroy(without_device());
}

} // namespace device_test
