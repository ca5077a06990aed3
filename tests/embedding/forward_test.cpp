// Forward passes with tensors in buffers: the host's, which the engine reads and writes without a copy, and the
// engine's, which the host's shaders read by address.
#include "hekla/model.h"
#include "host.hpp"

#include <chrono>
#include <thread>

namespace forward_test {

using namespace hekla::test;

namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr int64_t kLength = 7;
constexpr std::array<int32_t, kLength> kIds{3, 1, 4, 1, 5, 9, 2};
const std::string kModel = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/models/bert-classifier";

hk_string view(const std::string& s) { return {s.data(), s.size()}; }

constexpr VkBufferUsageFlags kUsage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT;

hk_session_info state_of(hk_session session, uint64_t nanoseconds = 0) {
    hk_session_info info{};
    info.struct_size = sizeof info;
    REQUIRE(hk_session_wait(session, nanoseconds, &info, nullptr) == HK_OK);
    return info;
}
std::string message_of(const hk_session_info& info) {
    return {info.message.data, static_cast<std::size_t>(info.message.size)};
}

void run_pass(hk_session session, double microseconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (state_of(session).state == HK_SESSION_WORKING) {
        hk_advance given{};
        given.struct_size = sizeof given;
        given.microseconds = microseconds;
        REQUIRE(hk_session_advance(session, &given, nullptr, nullptr) == HK_OK);
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        REQUIRE(std::chrono::steady_clock::now() < end);
    }
    const hk_session_info info = state_of(session);
    REQUIRE_MESSAGE(info.state == HK_SESSION_IDLE, message_of(info));
}

} // namespace

TEST_CASE("ids from a buffer of the host, features into another, without any copy") {
    FaultDriver::get().reset();
    Host host;
    hk_context context{};
    const Error error;
    REQUIRE(host.context(context, error) == HK_OK);
    Embedding expected;
    REQUIRE(embed(context, "bert-classifier", expected, error) == HK_OK);
    hk_context_destroy(context);
    const uint64_t size = expected.values.size() * sizeof(float);

    FaultDriver::get().reset();
    REQUIRE(host.context(context, error) == HK_OK);
    {
        const HostBuffer ids(host, 4096, kUsage), hidden(host, size + 512, kUsage);
        const std::string port = "hidden", input = "input_ids", mask = "attention_mask";
        const hk_string ports = view(port);
        std::array<hk_binding, 2> bindings{hk_binding{view(input), ids.described},
                                           hk_binding{view(port), hidden.described}};
        bindings[1].buffer.offset = 512;
        bindings[1].buffer.bytes = size;
        std::vector<uint64_t> done;
        hk_forward_options options{};
        options.struct_size = sizeof options;
        options.model = view(kModel);
        options.rows = 1;
        options.length = kLength;
        options.attention = 1;
        options.ports = &ports;
        options.port_count = 1;
        options.bindings = bindings.data();
        options.binding_count = bindings.size();
        options.user = &done;
        options.done = [](void* user, uint64_t pass) { static_cast<std::vector<uint64_t>*>(user)->push_back(pass); };
        hk_session session{};
        REQUIRE(hk_session_forward(context, &options, nullptr, &session, error) == HK_OK);
        const hk_session_info ready = state_of(session, 60 * kSecond);
        REQUIRE_MESSAGE(ready.state == HK_SESSION_IDLE, message_of(ready));
        for (int pass = 0; pass < 2; ++pass) {
            std::copy(kIds.begin(), kIds.end(), ids.as<int32_t>());
            std::fill_n(hidden.as<float>(512), expected.values.size(), -1.0F);
            REQUIRE(hk_session_pass(session, nullptr, nullptr, error) == HK_OK);
            CHECK(hk_session_pass(session, nullptr, nullptr, error) == HK_FAILED_PRECONDITION);
            run_pass(session, pass == 0 ? 50.0 : 1e6);
            CHECK(std::equal(expected.values.begin(), expected.values.end(), hidden.as<float>(512)));
        }
        // Arguments of kernels are copied to a GPU that has memory of its own.
        if (host.shares_memory()) CHECK(FaultDriver::get().calls("vkCmdCopyBuffer") == 0);
        CHECK(FaultDriver::get().calls("vkCmdUpdateBuffer") == 0);
        CHECK(hk_session_pass(session, kIds.data(), nullptr, error) == HK_INVALID_ARGUMENT);
        CHECK(error.says("bound to input_ids"));

        // Hekla's buffer: the host's shaders would read it by its address.
        hk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        const std::string map = "attention.0";
        REQUIRE(hk_session_tensor(session, view(map), &tensor, error) == HK_OK);
        CHECK(tensor.kind == HK_TENSOR_FLOAT32);
        REQUIRE(tensor.rank == 4);
        CHECK(tensor.dims[2] == kLength);
        CHECK(tensor.dims[3] == kLength);
        CHECK(tensor.buffer.address != 0);
        CHECK(tensor.buffer.buffer != 0);
        REQUIRE(hk_session_tensor(session, view(input), &tensor, error) == HK_OK);
        CHECK(tensor.kind == HK_TENSOR_INT32);
        CHECK(tensor.buffer.buffer == ids.described.buffer);
        CHECK(hk_session_tensor(session, view(mask + "s"), &tensor, error) == HK_NOT_FOUND);
        CHECK_MESSAGE(error.says("attention.0, attention.1"), error.message());
        hk_session_destroy(session);
        CHECK(done == std::vector<uint64_t>{1, 2});
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("ids given on the host, shorter rows, and unsuitable buffers") {
    FaultDriver::get().reset();
    Host host;
    hk_context context{};
    const Error error;
    REQUIRE(host.context(context, error) == HK_OK);
    Embedding expected;
    REQUIRE(embed(context, "bert-classifier", expected, error) == HK_OK);
    const uint64_t row = expected.values.size();
    {
        const HostBuffer hidden(host, 2 * row * sizeof(float) + 4096, kUsage);
        const std::string port = "hidden";
        const hk_string ports = view(port);
        hk_binding binding{view(port), hidden.described};
        hk_forward_options options{};
        options.struct_size = sizeof options;
        options.model = view(kModel);
        options.rows = 2;
        options.length = kLength + 3;
        options.ports = &ports;
        options.port_count = 1;
        options.bindings = &binding;
        options.binding_count = 1;
        hk_session session{};
        const auto fails_with = [&](const char* part) {
            REQUIRE(hk_session_forward(context, &options, nullptr, &session, error) == HK_OK);
            const hk_session_info info = state_of(session, 60 * kSecond);
            CHECK(info.state == HK_SESSION_FAILED);
            CHECK_MESSAGE(message_of(info).find(part) != std::string::npos, message_of(info));
            hk_session_destroy(session);
        };
        binding.buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
        fails_with("VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT");
        binding.buffer.usage = VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
        fails_with("VK_BUFFER_USAGE_STORAGE_BUFFER_BIT");
        binding.buffer = hidden.described;
        binding.buffer.memory_has_address = 0;
        fails_with("VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT");
        binding.buffer = hidden.described;
        binding.buffer.queue_family = host.family + 1;
        fails_with("belongs to the queue family");
        binding.buffer = hidden.described;
        binding.buffer.offset = 4;
        fails_with("multiple of 256");
        binding.buffer = hidden.described;
        binding.buffer.bytes = 16;
        fails_with("16 bytes");
        binding.buffer = hidden.described;
        const std::string wrong = "hiden";
        binding.name = view(wrong);
        fails_with("no field or port 'hiden'");
        binding.name = view(port);
        options.rows = 0;
        CHECK(hk_session_forward(context, &options, nullptr, &session, error) == HK_INVALID_ARGUMENT);
        options.rows = 2;

        REQUIRE(hk_session_forward(context, &options, nullptr, &session, error) == HK_OK);
        REQUIRE_MESSAGE(state_of(session, 60 * kSecond).state == HK_SESSION_IDLE, message_of(state_of(session)));
        // The second row equals the one that was embedded alone, with padding at the end.
        std::vector<int32_t> ids(static_cast<std::size_t>(2 * (kLength + 3)), 6);
        std::copy(kIds.begin(), kIds.end(), ids.begin() + kLength + 3);
        const std::array<uint64_t, 2> lengths{kLength + 3, kLength};
        REQUIRE(hk_session_pass(session, ids.data(), lengths.data(), error) == HK_OK);
        run_pass(session, 500.0);
        const uint64_t width = row / kLength;
        for (uint64_t i = 0; i < row; ++i)
            CHECK(hidden.as<float>()[(kLength + 3) * width + i] == doctest::Approx(expected.values[i]).epsilon(1e-4));
        const std::array<uint64_t, 2> none{0, 1};
        CHECK(hk_session_pass(session, ids.data(), none.data(), error) == HK_INVALID_ARGUMENT);
        CHECK(error.says("lengths[0] is 0"));
        CHECK(hk_session_pass(session, nullptr, nullptr, error) == HK_INVALID_ARGUMENT);
        CHECK(error.says("ids is null"));
        const hk_string prompt = view(port);
        CHECK(hk_session_prompt(session, &prompt, 1, error) != HK_OK);
        hk_session_destroy(session);
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("separate inputs for the encoder and the decoder") {
    FaultDriver::get().reset();
    Host host;
    hk_context context{};
    const Error error;
    REQUIRE(host.context(context, error) == HK_OK);
    Embedding expected; // here the decoder reads the same row, shifted by one position
    REQUIRE(embed(context, "bart-denoising", expected, error) == HK_OK);
    const std::size_t width = expected.values.size() / kLength;
    const std::array<int32_t, kLength> written{2, 3, 1, 4, 1, 5, 9};
    {
        const HostBuffer hidden(host, expected.values.size() * sizeof(float), kUsage), targets(host, 4096, kUsage);
        const std::string model = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/models/bart-denoising",
                          port = "hidden", target = "decoder_input_ids";
        const hk_string ports = view(port);
        const std::array<hk_binding, 2> bindings{hk_binding{view(port), hidden.described},
                                                 hk_binding{view(target), targets.described}};
        hk_forward_options options{};
        options.struct_size = sizeof options;
        options.model = view(model);
        options.rows = 1;
        options.length = kLength;
        options.decoder_length = kLength;
        options.attention = 1;
        options.ports = &ports;
        options.port_count = 1;
        options.bindings = bindings.data();
        options.binding_count = 1;
        hk_session session{};
        const auto prepare = [&] {
            REQUIRE(hk_session_forward(context, &options, nullptr, &session, error) == HK_OK);
            const hk_session_info ready = state_of(session, 60 * kSecond);
            REQUIRE_MESSAGE(ready.state == HK_SESSION_IDLE, message_of(ready));
        };
        const auto hidden_states = [&](const int32_t* ids, const int32_t* decoder_ids) {
            REQUIRE_MESSAGE(hk_session_pass_pair(session, ids, nullptr, decoder_ids, error) == HK_OK, error.message());
            run_pass(session, 500.0);
            return std::vector<float>(hidden.as<float>(), hidden.as<float>() + expected.values.size());
        };
        prepare();
        CHECK(hidden_states(kIds.data(), written.data()) == expected.values);
        std::array<int32_t, kLength> other = written;
        other.back() = 11; // later decoder inputs do not affect earlier outputs
        std::vector<float> values = hidden_states(kIds.data(), other.data());
        const auto last = static_cast<std::ptrdiff_t>(expected.values.size() - width);
        CHECK(std::equal(values.begin(), values.begin() + last, expected.values.begin()));
        CHECK(!std::equal(values.begin() + last, values.end(), expected.values.begin() + last));
        other = kIds;
        other.back() = 11; // the encoder's input affects all outputs
        values = hidden_states(other.data(), written.data());
        CHECK(
            !std::equal(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(width), expected.values.begin()));
        CHECK(hk_session_pass(session, kIds.data(), nullptr, error) == HK_INVALID_ARGUMENT);
        CHECK_MESSAGE(error.says("hk_session_pass_pair"), error.message());
        CHECK(hk_session_pass_pair(session, kIds.data(), nullptr, nullptr, error) == HK_INVALID_ARGUMENT);
        CHECK_MESSAGE(error.says("decoder_ids is null"), error.message());
        hk_session_destroy(session);

        // With the host's buffer for the decoder's input, of another length; also checks the kind of each map.
        options.decoder_length = kLength - 2;
        options.binding_count = bindings.size();
        options.bindings = bindings.data();
        prepare();
        std::copy(written.begin(), written.end() - 2, targets.as<int32_t>());
        values = hidden_states(kIds.data(), nullptr);
        CHECK(std::equal(values.begin(), values.begin() + last - static_cast<std::ptrdiff_t>(width),
                         expected.values.begin()));
        std::array<int, 3> maps{}; // of the encoder, of the decoder, from the decoder to the encoder
        const auto look = [](void* user, hk_string name, const hk_tensor* t) {
            if (!std::string(name.data, static_cast<std::size_t>(name.size)).starts_with("attention.")) return;
            CHECK(t->dims[2] == ((t->decoder_axes & 4U) != 0 ? kLength - 2 : kLength));
            CHECK(t->dims[3] == ((t->decoder_axes & 8U) != 0 ? kLength - 2 : kLength));
            ++(*static_cast<std::array<int, 3>*>(user))[t->decoder_axes == 0 ? 0 : t->decoder_axes == 12 ? 1 : 2];
        };
        REQUIRE(hk_session_tensors(session, &maps, look, error) == HK_OK);
        CHECK(maps == std::array<int, 3>{2, 2, 2});
        hk_session_destroy(session);

        options.decoder_length = -1;
        CHECK(hk_session_forward(context, &options, nullptr, &session, error) == HK_INVALID_ARGUMENT);
        options.decoder_length = 0;
        options.binding_count = 1;
        prepare();
        CHECK(hk_session_pass_pair(session, kIds.data(), nullptr, written.data(), error) == HK_INVALID_ARGUMENT);
        CHECK_MESSAGE(error.says("no decoder_length"), error.message());
        hk_session_destroy(session);
        options.model = view(kModel);
        options.decoder_length = 3;
        REQUIRE(hk_session_forward(context, &options, nullptr, &session, error) == HK_OK);
        const hk_session_info refused = state_of(session, 60 * kSecond);
        CHECK(refused.state == HK_SESSION_FAILED);
        CHECK_MESSAGE(message_of(refused).find("one stack") != std::string::npos, message_of(refused));
        hk_session_destroy(session);
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

} // namespace forward_test
