// Step scalars set by the host in a session.
#include "work.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace scalar_test {

using namespace hekla::test;

namespace {

// Writes a recipe for the plugin `gated`, whose body is scaled by the step scalar "gate".
void write_recipe(const Place& place) {
    std::ofstream(place.folder / "gated.toml")
        << "[model]\narchitecture = \"gated\"\n[data]\nvalid_fraction = 0.0\ntrain = " << (place.folder / "text.txt")
        << "\n[train]\nmax_steps = 5\ncontext_length = 16\neval_steps = 0\nsave_steps = 0\n[output]\ndir = "
        << (place.folder / "run") << "\n";
}

// Returns "scalars" of each line of a run's log; empty for a line without.
std::vector<std::string> logged(const Place& place, const char* run) {
    std::istringstream log(place.read((std::string(run) + "/train_log.jsonl").c_str()));
    std::vector<std::string> all;
    for (std::string line; std::getline(log, line);) {
        const std::size_t at = line.find("\"scalars\":{");
        all.push_back(at == std::string::npos ? "" : line.substr(at + 11, line.find('}', at) - at - 11));
    }
    return all;
}

// A context that finds the plugin `gated`.
struct GatedHost {
    GatedHost() {
        REQUIRE(host.context(context, nullptr, [&](hk_context_options& options) {
            options.plugin_folders = folders.data();
            options.plugin_folder_count = folders.size();
            options.describe = HK_DESCRIBE_IN_PROCESS;
        }) == HK_OK);
    }
    Host host;
    std::string built_in = HEKLA_PLUGIN_FOLDER, own = HEKLA_TRAIN_PLUGINS;
    std::array<hk_string, 2> folders{view(built_in), view(own)};
    hk_context context{};
};

} // namespace

TEST_CASE("a host sets a step scalar of a training session; invalid ones are rejected") {
    FaultDriver::get().reset();
    const Place place;
    const GatedHost gated;
    const hk_context context = gated.context;
    const Error error;
    write_recipe(place);
    Training training(place, "run");
    training.recipe = place.at("gated.toml");
    training.options.recipe = view(training.recipe);
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    const hk_session_info info = state_of(session, 120 * kSecond);
    REQUIRE_MESSAGE(info.state == HK_SESSION_WORKING, message_of(info));
    const std::string gate = "gate", other = "gates";
    CHECK(hk_session_set_scalar(session, view(other), 0.5, error) == HK_INVALID_ARGUMENT);
    CHECK_MESSAGE(error.says("the graph has no step scalar 'gates'; did you mean 'gate'?"), error.message());
    CHECK(hk_session_set_scalar(session, view(gate), std::nan(""), error) == HK_INVALID_ARGUMENT);
    CHECK(hk_session_set_scalar(session, view(gate), 1e39, error) == HK_INVALID_ARGUMENT);
    CHECK(hk_session_set_scalar(session, view(gate), 0.25, error) == HK_OK);
    run_until(session, HK_SESSION_DONE, 5000.0);
    CHECK(hk_session_set_scalar(session, view(gate), 0.5, error) == HK_FAILED_PRECONDITION);
    hk_session_destroy(session);
    const std::vector<std::string> scalars = logged(place, "run");
    REQUIRE(scalars.size() == 5);
    CHECK(scalars.back() == "\"gate\":0.25");
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a host sets a step scalar of a forward session, and its outputs follow; generation sessions have none") {
    FaultDriver::get().reset();
    const Place place;
    GatedHost gated;
    const hk_context context = gated.context;
    const Error error;
    write_recipe(place);
    Training training(place, "run");
    training.recipe = place.at("gated.toml");
    training.options.recipe = view(training.recipe);
    REQUIRE_MESSAGE(hk_train(context, &training.options, nullptr, error) == HK_OK, error.message());
    const std::string model = place.at("run"), port = "hidden", gate = "gate", mix = "layer.0.mix", other = "gates";
    {
        constexpr std::array<int32_t, 4> kIds{3, 1, 4, 1};
        constexpr uint64_t kBytes = 65536;
        const HostBuffer hidden(gated.host, kBytes,
                                VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT);
        const hk_string ports = view(port);
        const hk_binding binding{view(port), hidden.described};
        hk_forward_options options{};
        options.struct_size = sizeof options;
        options.model = view(model);
        options.rows = 1;
        options.length = kIds.size();
        options.ports = &ports;
        options.port_count = 1;
        options.bindings = &binding;
        options.binding_count = 1;
        hk_session session{};
        REQUIRE(hk_session_forward(context, &options, nullptr, &session, error) == HK_OK);
        const hk_session_info ready = state_of(session, 120 * kSecond);
        REQUIRE_MESSAGE(ready.state == HK_SESSION_IDLE, message_of(ready));
        hk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        REQUIRE(hk_session_tensor(session, view(port), &tensor, error) == HK_OK);
        std::size_t count = 1;
        for (uint32_t i = 0; i < tensor.rank; ++i) count *= static_cast<std::size_t>(tensor.dims[i]);
        REQUIRE(count * sizeof(float) <= kBytes);
        const auto output = [&] {
            REQUIRE_MESSAGE(hk_session_pass(session, kIds.data(), nullptr, error) == HK_OK, error.message());
            run_until(session, HK_SESSION_IDLE, 5000.0);
            return std::vector<float>(hidden.as<float>(), hidden.as<float>() + count);
        };
        const std::vector<float> usual = output(); // the gate's default is 1
        CHECK(std::ranges::any_of(usual, [](float value) { return value != 0.0F; }));
        const auto scaled_by = [&](float factor) {
            const std::vector<float> values = output();
            for (std::size_t i = 0; i < count; ++i)
                if (std::abs(values[i] - factor * usual[i]) > 1e-6F) return false;
            return true;
        };
        for (const float value : {0.25F, -2.0F, 0.0F}) {
            REQUIRE(hk_session_set_scalar(session, view(gate), static_cast<double>(value), error) == HK_OK);
            CHECK(scaled_by(value));
        }
        REQUIRE(hk_session_set_scalar(session, view(mix), 0.5, error) == HK_OK);
        CHECK(scaled_by(0.5F)); // the gate is 0 still
        CHECK(hk_session_set_scalar(session, view(other), 0.5, error) == HK_INVALID_ARGUMENT);
        CHECK_MESSAGE(error.says("the graph has no step scalar 'gates'; did you mean 'gate'?"), error.message());
        CHECK(hk_session_set_scalar(session, view(gate), std::nan(""), error) == HK_INVALID_ARGUMENT);
        CHECK(scaled_by(0.5F)); // what was refused changed nothing
        hk_session_destroy(session);
    }
    const std::string folder = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/llama-bos/template";
    Writing writing(folder, "the");
    hk_session session{};
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &session, error) == HK_OK);
    CHECK(hk_session_set_scalar(session, view(gate), 0.5, error) == HK_UNSUPPORTED);
    CHECK_MESSAGE(error.says("a generation session has no step scalars to set"), error.message());
    hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

} // namespace scalar_test
