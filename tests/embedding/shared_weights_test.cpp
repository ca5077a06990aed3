// Sessions that share the weights of one model, created, released, restored and destroyed in random orders: what each
// writes is what a session alone writes.
#include "work.hpp"

#include <cstring>
#include <random>

namespace shared_weights_test {

using namespace hekla::test;

namespace {

constexpr int64_t kLength = 4;
constexpr VkBufferUsageFlags kUsage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT;

// A session of the model in a folder: forward passes into a buffer of the host, or texts.
class Reader {
public:
    Reader(Host& host, hk_context context, const std::string& model, bool writes)
        : model_(model), hidden_(host, kBytes, kUsage), writing_(model), writes_(writes) {
        const Error error;
        int32_t code = HK_OK;
        if (writes_) {
            writing_.options.max_new_tokens = 6;
            code = hk_session_generate(context, &writing_.options, nullptr, &session_, error);
        } else {
            const hk_string ports = view(port_);
            hk_binding binding{view(port_), hidden_.described};
            hk_forward_options options{};
            options.struct_size = sizeof options;
            options.model = view(model_);
            options.rows = 1;
            options.length = kLength;
            options.ports = &ports;
            options.port_count = 1;
            options.bindings = &binding;
            options.binding_count = 1;
            code = hk_session_forward(context, &options, nullptr, &session_, error);
        }
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        const hk_session_info info = state_of(session_, 120 * kSecond);
        REQUIRE_MESSAGE(info.state == (writes_ ? HK_SESSION_WORKING : HK_SESSION_IDLE), message_of(info));
        if (writes_) result();
    }
    ~Reader() { hk_session_destroy(session_); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    bool writes() const { return writes_; }
    void release() {
        const Error error;
        const int32_t code = hk_session_release_memory(session_, 60 * kSecond, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
    }
    void restore() {
        const Error error;
        const int32_t code = hk_session_restore_memory(session_, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
    }
    // Runs a pass, or writes a text; the session is restored.
    std::string pass() {
        const Error error;
        const std::array<int32_t, kLength> ids{1, 2, 3, 4};
        std::memset(hidden_.as<char>(), 0, kBytes);
        const hk_string prompt = view(prompt_);
        const int32_t code = writes_ ? hk_session_prompt(session_, &prompt, 1, error)
                                     : hk_session_pass(session_, ids.data(), nullptr, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        return result();
    }

private:
    static constexpr uint64_t kBytes = kLength * 32 * sizeof(float); // of the model in Place
    std::string result() {
        run_until(session_, HK_SESSION_IDLE, 5000.0);
        return writes_ ? writing_.taken() : std::string(hidden_.as<char>(), kBytes);
    }
    std::string model_, port_ = "hidden", prompt_ = "line ";
    HostBuffer hidden_;
    Writing writing_;
    bool writes_;
    hk_session session_{};
};

// steps: of release, restore, pass, create and destroy, in total.
void in_random_orders(uint32_t seed, int steps) {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "run"));
    const std::string model = place.at("run");
    const auto alone = [&](bool writes) { return Reader(host, context, model, writes).pass(); };
    const std::string expected[2] = {alone(false), alone(true)};
    CHECK(expected[0] != std::string(expected[0].size(), '\0'));
    CHECK_FALSE(expected[1].empty());

    std::minstd_rand random(seed);
    const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() / 7) % end; };
    std::vector<std::unique_ptr<Reader>> readers;
    for (int step = 0; step < steps; ++step) {
        CAPTURE(step);
        const std::size_t what = below(6);
        if (readers.empty() || (what == 0 && readers.size() < 4)) {
            readers.push_back(std::make_unique<Reader>(host, context, model, below(2) == 1));
            continue;
        }
        const std::size_t which = below(readers.size());
        Reader& reader = *readers[which];
        if (what <= 2) {
            reader.release();
        } else if (what == 3) {
            reader.restore();
        } else if (what == 4) {
            reader.restore();
            CHECK(reader.pass() == expected[reader.writes() ? 1 : 0]);
        } else {
            readers.erase(readers.begin() + static_cast<std::ptrdiff_t>(which));
        }
    }
    readers.clear();
    hk_context_destroy(context);
    CHECK_MESSAGE(FaultDriver::get().leaks().empty(), FaultDriver::get().leaks());
}

} // namespace

TEST_CASE("a session of a model whose weights were released has them back") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "run"));
    const std::string model = place.at("run");
    {
        Reader first(host, context, model, false);
        const std::string expected = first.pass();
        first.release();
        Reader second(host, context, model, false), third(host, context, model, true);
        CHECK(second.pass() == expected);
        second.release();
        CHECK_FALSE(third.pass().empty());
        first.restore();
        CHECK(first.pass() == expected);
    }
    hk_context_destroy(context);
}

TEST_CASE("sessions share weights in random orders of release, restore, create and destroy") {
    in_random_orders(1, 40);
}

TEST_CASE("sessions share weights in many random orders" * doctest::test_suite("long")) {
    for (uint32_t seed = 2; seed < 12; ++seed) in_random_orders(seed, 400);
}

} // namespace shared_weights_test
