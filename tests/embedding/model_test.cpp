// Inspection: models described without a device, the parameters and gradients of a session on the device, and the
// predictions of the head from each layer.
#include "host.hpp"
#include "recurrent.hpp"

#include "hekla/model.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace model_test {

using namespace hekla::test;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

hk_string view(const std::string& s) { return {s.data(), s.size()}; }
std::string text_of(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

// A folder with a recipe for a small GPT-2 on a few lines.
struct Lines {
    Lines() {
        std::ofstream text(folder / "text.txt");
        for (int i = 0; i < 200; ++i) text << "line " << i * i % 97 << " of the text, and some more\n";
        std::ofstream(folder / "recipe.toml")
            << "[model]\narchitecture = \"gpt2\"\nn_embd = 32\nn_layer = 2\nn_head = 2\nn_positions = 64\n[objective]\n"
               "id = \"clm\"\n[head]\nid = \"lm\"\n[tokenizer]\nkind = \"char\"\n[data]\nvalid_fraction = 0.0\ntrain = "
            << (folder / "text.txt")
            << "\n[train]\nmax_steps = 4\ncontext_length = 32\nper_device_train_batch_size = 4\nsave_steps = 0\n"
               "eval_steps = 0\nmax_grad_norm = 0.0\nfreeze = [\"transformer.wpe.*\"]\n[output]\ndir = "
            << (folder / "run") << "\n";
    }
    TestFolder folder;
};

// Reads a tensor through a copy on the device.
std::vector<float> read_floats(Host& host, const Frames& frames, const hk_tensor& tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor.rank; ++i) count *= static_cast<uint64_t>(tensor.dims[i]);
    const HostBuffer into(host, count * sizeof(float), VK_BUFFER_USAGE_TRANSFER_DST_BIT, false);
    static uint64_t value = 0; // one timeline per test
    static VkDevice device = VK_NULL_HANDLE;
    if (std::exchange(device, host.device) != host.device) value = 0;
    const VkCommandBuffer commands = frames.begin(0);
    VkBuffer from = VK_NULL_HANDLE, to = VK_NULL_HANDLE;
    std::memcpy(&from, &tensor.buffer.buffer, sizeof from);
    std::memcpy(&to, &into.described.buffer, sizeof to);
    const VkBufferCopy region{tensor.buffer.offset, 0, count * sizeof(float)};
    host.of<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer")(commands, from, to, 1, &region);
    frames.submit(0, ++value);
    frames.wait(value);
    return {into.as<float>(), into.as<float>() + count};
}

hk_session_info state_of(hk_session session, uint64_t nanoseconds = 0) {
    hk_session_info info{};
    info.struct_size = sizeof info;
    REQUIRE(hk_session_wait(session, nanoseconds, &info, nullptr) == HK_OK);
    return info;
}

void run_until(hk_session session, int32_t state) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    for (hk_session_info info = state_of(session, 120 * kSecond); info.state != state; info = state_of(session)) {
        REQUIRE_MESSAGE(info.state != HK_SESSION_FAILED, text_of(info.message));
        REQUIRE(std::chrono::steady_clock::now() < end);
        hk_advance given{};
        given.struct_size = sizeof given;
        given.microseconds = 1e5;
        REQUIRE(hk_session_advance(session, &given, nullptr, nullptr) == HK_OK);
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

hk_tensor tensor_of(hk_session session, const std::string& name) {
    hk_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    const Error error;
    const int32_t code = hk_session_tensor(session, view(name), &tensor, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return tensor;
}

// Trains the recipe of `lines`, and returns the folder of the run.
std::string trained(hk_context context, const Lines& lines) {
    const std::string recipe = (lines.folder / "recipe.toml").string();
    hk_train_options options{};
    options.struct_size = sizeof options;
    options.recipe = view(recipe);
    const Error error;
    REQUIRE_MESSAGE(hk_train(context, &options, nullptr, error) == HK_OK, error.message());
    return (lines.folder / "run").string();
}

// The gradients that the training's `step` callback reads from their buffers.
struct Seen {
    Host* host;
    const Frames* frames;
    std::atomic<hk_session*> session{nullptr};
    std::vector<double> reported = {}, found = {}; // norms of the gradients
    std::vector<std::vector<float>> gains = {};
    int32_t frozen = HK_OK;

    void look(const hk_train_step& step) {
        while (session.load() == nullptr) std::this_thread::yield();
        std::vector<std::string> names;
        const auto give = [](void* user, const hk_parameter* p) {
            if (p->learns != 0) static_cast<std::vector<std::string>*>(user)->push_back(text_of(p->name));
        };
        CHECK(hk_session_parameters(*session, &names, give, nullptr) == HK_OK);
        double squares = 0;
        hk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        for (const std::string& name : names) {
            CHECK(hk_session_parameter(*session, view(name), HK_PARAMETER_GRADIENT, &tensor, nullptr) == HK_OK);
            for (const float g : read_floats(*host, *frames, tensor)) squares += static_cast<double>(g) * g;
        }
        reported.push_back(step.gradient_norm);
        found.push_back(std::sqrt(squares));
        const std::string gain = "transformer.ln_f.weight", places = "transformer.wpe.weight";
        CHECK(hk_session_parameter(*session, view(gain), HK_PARAMETER_VALUE, &tensor, nullptr) == HK_OK);
        gains.push_back(read_floats(*host, *frames, tensor));
        frozen = hk_session_parameter(*session, view(places), HK_PARAMETER_GRADIENT, &tensor, nullptr);
    }
};

hk_context context_without_device() {
    hk_context context{};
    const Error error;
    REQUIRE_MESSAGE(make_context(context, error, [](hk_context_options& o) { o.device_kind = HK_DEVICE_NONE; }) ==
                        HK_OK,
                    error.message());
    return context;
}

} // namespace

TEST_CASE("encoder-decoder or single stack is derived from the graph, whatever config.json contains") {
    const hk_context context = context_without_device();
    const Error error;
    const Recurrent recurrent;
    const std::string fixtures = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/models/";
    const std::pair<std::string, int32_t> expected[] = {{fixtures + "gpt2-clm", 0},
                                                        {fixtures + "bert-tagger", 0},
                                                        {fixtures + "t5-span-corruption", 1},
                                                        {recurrent.folder(), 1}};
    for (const auto& [folder, encodes] : expected) {
        CAPTURE(folder);
        hk_model model{};
        REQUIRE_MESSAGE(hk_model_open(context, view(folder), &model, error) == HK_OK, error.message());
        hk_model_info info{};
        info.struct_size = sizeof info;
        REQUIRE(hk_model_describe(model, &info, error) == HK_OK);
        CHECK(info.encoder_decoder == encodes);
        CHECK(info.decoder_start == (folder.ends_with("t5-span-corruption") ? 0 : -1)); // from config.json
        const std::string text = "a";
        const auto take = [](void*, const int32_t*, uint64_t) { FAIL("there is no tokenizer"); };
        CHECK(hk_model_encode_source(model, view(text), nullptr, take, error) != HK_OK);
        CHECK_MESSAGE(error.says("tokenizer"), error.message());
        hk_model_destroy(model);
    }
    hk_context_destroy(context);
}

TEST_CASE("a model folder is described without a device") {
    const std::string folder = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/models/gpt2-clm";
    const hk_context context = context_without_device();
    const Error error;
    hk_model model{};
    REQUIRE_MESSAGE(hk_model_open(context, view(folder), &model, error) == HK_OK, error.message());
    hk_context_destroy(context); // the model does not need it any more
    hk_model_info info{};
    info.struct_size = sizeof info;
    REQUIRE(hk_model_describe(model, &info, error) == HK_OK);
    CHECK(text_of(info.architecture) == "gpt2");
    CHECK(text_of(info.head) == "lm");
    CHECK(text_of(info.folder) == folder);
    CHECK(info.encoder_decoder == 0);
    CHECK(info.vocabulary == 0);
    std::map<std::string, std::vector<int64_t>> parameters;
    const auto give = [](void* user, const hk_parameter* p) {
        CHECK(p->learns == 0);
        (*static_cast<std::map<std::string, std::vector<int64_t>>*>(user))[text_of(p->name)] = {p->dims,
                                                                                                p->dims + p->rank};
    };
    REQUIRE(hk_model_parameters(model, &parameters, give, error) == HK_OK);
    CHECK(static_cast<int64_t>(parameters.size()) == info.parameters);
    CHECK(parameters.at("transformer.wte.weight") == std::vector<int64_t>{128, 32});
    CHECK(parameters.at("transformer.ln_f.bias") == std::vector<int64_t>{32});
    int64_t elements = 0;
    for (const auto& [name, dims] : parameters) {
        int64_t count = 1;
        for (const int64_t d : dims) count *= d;
        elements += count;
    }
    CHECK(elements == info.elements);
    const std::string text = "a";
    const auto take = [](void*, const int32_t*, uint64_t) { FAIL("there is no tokenizer"); };
    CHECK(hk_model_encode(model, view(text), nullptr, take, error) != HK_OK);
    CHECK_MESSAGE(error.says("tokenizer"), error.message());
    CHECK(hk_model_encode(model, view(text), nullptr, nullptr, error) == HK_INVALID_ARGUMENT);
    info.struct_size = 8;
    CHECK(hk_model_describe(model, &info, error) == HK_INVALID_ARGUMENT);
    hk_model_destroy(model);
    info.struct_size = sizeof info;
    CHECK(hk_model_describe(model, &info, error) == HK_INVALID_ARGUMENT);
    CHECK_MESSAGE(error.says("was destroyed"), error.message());
}

TEST_CASE("gradients of a training are read on the device") {
    FaultDriver::get().reset();
    const Lines lines;
    Host host;
    hk_context context{};
    const Error error;
    REQUIRE(host.context(context, error) == HK_OK);
    {
        const Frames frames(host);
        Seen seen{&host, &frames};
        const std::string recipe = (lines.folder / "recipe.toml").string(), gain = "transformer.ln_f.weight";
        hk_train_options train{};
        train.struct_size = sizeof train;
        train.recipe = view(recipe);
        train.user = &seen;
        train.step = [](void* user, const hk_train_step* step) { static_cast<Seen*>(user)->look(*step); };
        hk_session session{};
        REQUIRE(hk_session_train(context, &train, nullptr, &session, error) == HK_OK);
        seen.session = &session;
        hk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        run_until(session, HK_SESSION_DONE);
        REQUIRE(seen.reported.size() == 4);
        for (std::size_t i = 0; i < seen.reported.size(); ++i)
            CHECK(seen.found[i] == doctest::Approx(seen.reported[i]).epsilon(1e-4));
        CHECK(seen.gains[0] != seen.gains[3]);
        CHECK(seen.frozen == HK_FAILED_PRECONDITION);
        CHECK(hk_session_parameter(session, view(gain), HK_PARAMETER_VALUE, &tensor, error) == HK_FAILED_PRECONDITION);
        CHECK_MESSAGE(error.says("ended"), error.message());
        hk_session_destroy(session);
        host.of<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(host.device);
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a trained model encodes and decodes its texts") {
    FaultDriver::get().reset();
    const Lines lines;
    Host host;
    hk_context context{};
    const Error error;
    REQUIRE(host.context(context, error) == HK_OK);
    {
        const std::string run = trained(context, lines), text = "line 1 of";
        hk_model model{};
        REQUIRE_MESSAGE(hk_model_open(context, view(run), &model, error) == HK_OK, error.message());
        std::vector<int32_t> ids;
        const auto take_ids = [](void* user, const int32_t* given, uint64_t count) {
            static_cast<std::vector<int32_t>*>(user)->assign(given, given + count);
        };
        REQUIRE(hk_model_encode(model, view(text), &ids, take_ids, error) == HK_OK);
        CHECK(ids.size() == text.size());
        std::vector<int32_t> read; // this tokenizer puts nothing around a text
        REQUIRE(hk_model_encode_source(model, view(text), &read, take_ids, error) == HK_OK);
        CHECK(read == ids);
        std::string back;
        const auto take_text = [](void* user, hk_string given) { *static_cast<std::string*>(user) = text_of(given); };
        REQUIRE(hk_model_decode(model, ids.data(), ids.size(), &back, take_text, error) == HK_OK);
        CHECK(back == text);
        hk_model_destroy(model);
        host.of<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(host.device);
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("each layer's predictions of a trained model, and its tensors while its memory is released") {
    FaultDriver::get().reset();
    const Lines lines;
    Host host;
    hk_context context{};
    const Error error;
    REQUIRE(host.context(context, error) == HK_OK);
    {
        const Frames frames(host);
        const std::string run = trained(context, lines), gain = "transformer.ln_f.weight";
        hk_session session{};
        hk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        const std::array<int32_t, 9> ids{1, 2, 3, 4, 5, 6, 7, 8, 9};
        const std::array<std::string, 2> names{"logits", "layer.1.hidden"};
        const std::array<hk_string, 2> ports{view(names[0]), view(names[1])};
        hk_forward_options forward{};
        forward.struct_size = sizeof forward;
        forward.model = view(run);
        forward.rows = 1;
        forward.length = static_cast<int64_t>(ids.size());
        forward.ports = ports.data();
        forward.port_count = ports.size();
        forward.attention = 1;
        forward.lens = 1;
        REQUIRE(hk_session_forward(context, &forward, nullptr, &session, error) == HK_OK);
        const hk_session_info ready = state_of(session, 120 * kSecond);
        REQUIRE_MESSAGE(ready.state == HK_SESSION_IDLE, text_of(ready.message));
        std::vector<std::string> all;
        const auto take_name = [](void* user, hk_string name, const hk_tensor* t) {
            CHECK(t->buffer.address != 0);
            static_cast<std::vector<std::string>*>(user)->push_back(text_of(name));
        };
        REQUIRE(hk_session_tensors(session, &all, take_name, error) == HK_OK);
        CHECK(all == std::vector<std::string>{"attention.0", "attention.1", "attention_mask", "input_ids",
                                              "layer.1.hidden", "lens.0", "lens.1", "lens.2", "logits"});
        REQUIRE(hk_session_pass(session, ids.data(), nullptr, error) == HK_OK);
        run_until(session, HK_SESSION_IDLE);
        CHECK(hk_session_parameter(session, view(gain), HK_PARAMETER_GRADIENT, &tensor, error) ==
              HK_FAILED_PRECONDITION);
        CHECK(hk_session_parameter(session, view(run), HK_PARAMETER_VALUE, &tensor, error) == HK_NOT_FOUND);
        CHECK(hk_session_parameter(session, view(gain), 9, &tensor, error) == HK_INVALID_ARGUMENT);
        const auto parameter = [&](const std::string& name) {
            REQUIRE(hk_session_parameter(session, view(name), HK_PARAMETER_VALUE, &tensor, error) == HK_OK);
            return read_floats(host, frames, tensor);
        };
        const auto port = [&](const std::string& name) { return read_floats(host, frames, tensor_of(session, name)); };
        CHECK(port("lens.2") == port("logits"));
        // The second layer's rows computed by hand: the network's last norm, times the token embedding.
        const std::vector<float> weight = parameter(gain), bias = parameter("transformer.ln_f.bias"),
                                 words = parameter("transformer.wte.weight"), hidden = port("layer.1.hidden"),
                                 lens = port("lens.1");
        const std::size_t width = weight.size(), vocabulary = words.size() / width;
        REQUIRE(lens.size() == ids.size() * vocabulary);
        double furthest = 0;
        for (std::size_t row = 0; row < ids.size(); ++row) {
            double mean = 0, square = 0;
            for (std::size_t i = 0; i < width; ++i) mean += hidden[row * width + i] / static_cast<double>(width);
            for (std::size_t i = 0; i < width; ++i)
                square += std::pow(hidden[row * width + i] - mean, 2) / static_cast<double>(width);
            for (std::size_t word = 0; word < vocabulary; ++word) {
                double sum = 0;
                for (std::size_t i = 0; i < width; ++i)
                    sum += ((hidden[row * width + i] - mean) / std::sqrt(square + 1e-5) * weight[i] + bias[i]) *
                           words[word * width + i];
                furthest = std::max(furthest, std::abs(sum - lens[row * vocabulary + word]));
            }
        }
        CHECK(furthest < 1e-4);
        // Released memory has no place, and restored memory another one, with the same content.
        REQUIRE(hk_session_release_memory(session, 60 * kSecond, error) == HK_OK);
        CHECK(hk_session_parameter(session, view(gain), HK_PARAMETER_VALUE, &tensor, error) == HK_FAILED_PRECONDITION);
        CHECK_MESSAGE(error.says("hk_session_restore_memory"), error.message());
        CHECK(hk_session_tensor(session, view("logits"), &tensor, error) == HK_FAILED_PRECONDITION);
        CHECK(hk_session_tensors(session, &all, take_name, error) == HK_FAILED_PRECONDITION);
        REQUIRE(hk_session_restore_memory(session, error) == HK_OK);
        CHECK(parameter(gain) == weight);
        CHECK(port("lens.1") == lens);
        hk_session_destroy(session);
        host.of<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(host.device);
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("the last lens equals the logits, whether the network ends with a norm or each of its layers does") {
    FaultDriver::get().reset();
    Host host;
    hk_context context{};
    const Error error;
    REQUIRE(host.context(context, error) == HK_OK);
    {
        const Frames frames(host);
        for (const char* name : {"llama-clm", "distilbert-mlm", "gpt-clm"}) {
            CAPTURE(name);
            const std::string folder = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/models/" + name,
                              logits = "logits";
            const std::array<int32_t, 7> ids{3, 1, 4, 1, 5, 9, 2};
            const hk_string port = view(logits);
            hk_forward_options forward{};
            forward.struct_size = sizeof forward;
            forward.model = view(folder);
            forward.rows = 1;
            forward.length = static_cast<int64_t>(ids.size());
            forward.ports = &port;
            forward.port_count = 1;
            forward.lens = 1;
            hk_session session{};
            REQUIRE(hk_session_forward(context, &forward, nullptr, &session, error) == HK_OK);
            const hk_session_info ready = state_of(session, 120 * kSecond);
            REQUIRE_MESSAGE(ready.state == HK_SESSION_IDLE, text_of(ready.message));
            REQUIRE(hk_session_pass(session, ids.data(), nullptr, error) == HK_OK);
            run_until(session, HK_SESSION_IDLE);
            int layers = 0;
            hk_tensor tensor{};
            tensor.struct_size = sizeof tensor;
            for (std::string lens = "lens.1"; hk_session_tensor(session, view(lens), &tensor, error) == HK_OK;
                 lens = "lens." + std::to_string(layers + 1))
                ++layers;
            CHECK(layers >= 2);
            const std::vector<float> logit_values = read_floats(host, frames, tensor_of(session, logits));
            const auto lens = [&](int layer) {
                return read_floats(host, frames, tensor_of(session, "lens." + std::to_string(layer)));
            };
            CHECK(lens(layers) == logit_values);
            CHECK(lens(0).size() == logit_values.size());
            CHECK(lens(0) != logit_values);
            CHECK(lens(layers - 1) != logit_values);
            hk_session_destroy(session);
        }
        host.of<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(host.device);
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

} // namespace model_test
