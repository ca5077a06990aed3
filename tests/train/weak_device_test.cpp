// Devices that lack what most have: a model is trained and generates on them as on any other, or they are refused with
// the name of what is missing.
#include "base/file.hpp"
#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "generate/generator.hpp"
#include "infer/open/open_model.hpp"
#include "program/harness.hpp"
#include "program/runtime.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_context.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace weak_device_test {
namespace {

using Limits = gpu::CapabilityOverrides;

constexpr int64_t kSteps = 4;

struct Device {
    const char* name = "";
    Limits overrides = {};
    bool kernels_of_gpus = true;
};

Limits without(const char* bit) {
    Limits overrides;
    overrides.disable = {bit};
    return overrides;
}
template<class T>
Limits at_most(std::optional<T> Limits::*limit, T value) {
    Limits overrides;
    overrides.*limit = value;
    return overrides;
}

// A folder for the runs of one recipe.
struct Place {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});

    Recipe recipe() const {
        const std::string text = folder.path() / "text.txt";
        std::string content;
        for (int i = 0; i < 100; ++i) content += fmt::format("line {} of the text, and some more\n", i * i % 97);
        REQUIRE(write_file_atomically(text, content).ok());
        auto made = parse_recipe("[model]\narchitecture = \"gpt2\"\nn_embd = 128\nn_layer = 2\nn_head = 2\n"
                                 "n_positions = 48\nresid_pdrop = 0.0\nembd_pdrop = 0.0\nattn_pdrop = 0.0\n"
                                 "[objective]\nid = \"clm\"\n[head]\nid = \"lm\"\n[tokenizer]\nkind = \"char\"\n"
                                 "[data]\nvalid_fraction = 0.0\ntrain = \"" +
                                     text + "\"\n[train]\nmax_steps = " + std::to_string(kSteps) +
                                     "\ncontext_length = 40\nper_device_train_batch_size = 3\nsave_steps = 0\n"
                                     "eval_steps = 0\nlearning_rate = 0.002\n[output]\ndir = \"" +
                                     (folder.path() / "run").string() + "\"\n",
                                 "r.toml", {});
        REQUIRE_MESSAGE(made.ok(), made.message());
        return made.take();
    }
};

struct Trained {
    std::vector<double> losses;
    std::vector<int32_t> written; // by the device, after the last step
    std::vector<int32_t> exact;   // by the interpreter, with the same weights
    std::size_t chunks = 0;       // of the parameters
};

std::vector<int32_t> written_by(generate::Decoder& decoder) {
    generate::Request request;
    request.prompts = {{1, 2, 3, 4, 5}};
    generate::Options options;
    options.max_new_tokens = 20;
    const auto output = generate::generate(decoder, request, options);
    REQUIRE_MESSAGE(output.ok(), output.message());
    return output->rows.at(0).ids;
}

Trained trained(const Device& device) {
    CAPTURE(device.name);
    Limits overrides = device.overrides;
    if (device.kernels_of_gpus) overrides.disable.emplace_back("uniform_loads");
    program::RuntimeOptions options;
    options.kernels_of_gpus = device.kernels_of_gpus;
    Bench bench(options, overrides);
    const Place place;
    Trained result;
    TrainerEvents events;
    events.step = [&](const train::StepRecord& step) { result.losses.push_back(step.loss); };
    {
        auto run = TrainingRun::create(place.recipe(), place.registry, *bench, {}, events, Purpose::train);
        REQUIRE_MESSAGE(run.ok(), run.message());
        result.chunks = run.value()->store().chunks().size();
        const auto done = TrainingLoop(*run.value()).run();
        REQUIRE_MESSAGE(done.ok(), done.message());
    }
    infer::ModelOptions model_options;
    model_options.head = "lm";
    auto model = infer::open_model(place.registry, *bench, place.folder.path() / "run", model_options, {});
    REQUIRE_MESSAGE(model.ok(), model.message());
    auto decoder = generate::make_program_decoder(*bench, *model->store, *model->composition);
    REQUIRE_MESSAGE(decoder.ok(), decoder.message());
    result.written = written_by(*decoder.value());
    auto on_host = infer::open_model(place.registry, nullptr, place.folder.path() / "run", model_options, {});
    REQUIRE_MESSAGE(on_host.ok(), on_host.message());
    auto exact = generate::make_reference_decoder(*on_host->composition, on_host->parameters);
    REQUIRE_MESSAGE(exact.ok(), exact.message());
    result.exact = written_by(*exact.value());
    return result;
}

// Trains and generates on these devices as on one without their limits.
void check(const std::vector<Device>& devices) {
    const Trained expected = trained({"the device itself", {}, false});
    REQUIRE(expected.losses.size() == kSteps);
    CHECK(expected.losses.back() < expected.losses.front());
    CHECK(expected.written == expected.exact);
    for (const Device& device : devices) {
        CAPTURE(device.name);
        const Trained got = trained(device);
        REQUIRE(got.losses.size() == kSteps);
        for (std::size_t i = 0; i < got.losses.size(); ++i)
            CHECK(got.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-5));
        CHECK(got.written == got.exact);
        if (device.overrides.max_allocation_bytes) CHECK(got.chunks > expected.chunks);
    }
}

Device all_limits(bool kernels_of_gpus) {
    Device device{"all limits", {}, kernels_of_gpus};
    device.overrides.disable = {"int64", "storage_16bit", "subgroup_arithmetic", "subgroup_extended_types",
                                "subgroup_size_control"};
    device.overrides.shared_memory_bytes = 16384;
    device.overrides.max_workgroup_invocations = 128;
    device.overrides.max_allocation_bytes = uint64_t{1} << 20;
    return device;
}

Status refusal(const Limits& overrides) {
    gpu::ContextOptions options;
    options.device.overrides = overrides;
    auto context = gpu::create_context(options);
    REQUIRE_MESSAGE(context.ok(), context.message());
    return program::Runtime::create(context.take()).status();
}

} // namespace

TEST_CASE("a device with every limit that Vulkan allows trains and generates") { check({all_limits(true)}); }

TEST_SUITE("long") {
    TEST_CASE("devices with one limit each, and with the kernels of CPUs and all of them, train and generate") {
        std::vector<Device> devices{all_limits(false)};
        for (const char* bit : {"int64", "storage_16bit", "subgroup_size_control"})
            devices.push_back({bit, without(bit)});
        devices.push_back({"shared memory", at_most(&Limits::shared_memory_bytes, 16384u)});
        devices.push_back({"invocations", at_most(&Limits::max_workgroup_invocations, 128u)});
        devices.push_back({"allocations", at_most(&Limits::max_allocation_bytes, uint64_t{1} << 20)});
        check(devices);
    }
}

TEST_CASE("a device that cannot run the kernels is refused with the name of what is missing") {
    for (const char* bit : {"subgroup_ballot", "subgroup_shuffle"}) {
        const Status refused = refusal(without(bit));
        CHECK(refused.code() == Code::unsupported);
        CHECK_MESSAGE(refused.message().find(std::string("it lacks ") + bit) != std::string::npos, refused.message());
    }
    CHECK(refusal(at_most(&Limits::max_workgroup_invocations, 64u))
              .message()
              .find("it lacks workgroups of 128 invocations (64 are possible)") != std::string::npos);
    CHECK(refusal(at_most(&Limits::shared_memory_bytes, 8192u))
              .message()
              .find("it lacks 16384 bytes of shared memory per workgroup (it has 8192)") != std::string::npos);
}

TEST_CASE("a tensor larger than an allocation is refused by name") {
    const Place place;
    Limits overrides;
    overrides.max_allocation_bytes = 200 * 1024;
    gpu::ContextOptions options;
    options.device.overrides = overrides;
    auto context = gpu::create_context(options);
    REQUIRE_MESSAGE(context.ok(), context.message());
    auto runtime = program::Runtime::create(context.take());
    REQUIRE_MESSAGE(runtime.ok(), runtime.message());
    const auto run = TrainingRun::create(place.recipe(), place.registry, *runtime.value(), {}, {}, Purpose::read);
    REQUIRE(!run.ok());
    CHECK_MESSAGE(run.message().find("its parameter 'transformer.h.0.attn.c_attn.weight'") != std::string::npos,
                  run.message());
}

} // namespace weak_device_test
