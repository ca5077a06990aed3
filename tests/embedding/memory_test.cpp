// Memory of sessions: released and restored, in ranges provided by the host, and through the host's allocator.
#include "work.hpp"

#include "hekla/model.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

namespace memory_test {

using namespace hekla::test;

namespace {

// Runs the first half of a training in small frames.
void advance_pieces(hk_session session, uint64_t pieces) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (uint64_t begun = 0; begun < pieces;) {
        REQUIRE(std::chrono::steady_clock::now() < end);
        const hk_advanced out = advance(session, 100.0);
        begun += out.pieces;
        if (out.pieces == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
        if (state_of(session).state == HK_SESSION_DONE) return;
    }
}

void release(hk_session session) {
    const Error error;
    const int32_t code = hk_session_release_memory(session, 60 * kSecond, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    CHECK(state_of(session).state == HK_SESSION_RELEASED);
}

void restore(hk_session session) {
    const Error error;
    const int32_t code = hk_session_restore_memory(session, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    CHECK(state_of(session).state != HK_SESSION_RELEASED);
}

// A mapped VkDeviceMemory of the host.
class Block {
public:
    Block(Host& host, uint64_t bytes) : host_(host) {
        VkPhysicalDeviceMemoryProperties types{};
        host.of<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(host.physical, &types);
        constexpr VkMemoryPropertyFlags kMapped =
            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        uint32_t type = 0;
        while (type < types.memoryTypeCount && (types.memoryTypes[type].propertyFlags & kMapped) != kMapped) ++type;
        REQUIRE(type < types.memoryTypeCount);
        VkMemoryAllocateFlagsInfo flags{};
        flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
        flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
        VkMemoryAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
        allocate.pNext = &flags;
        allocate.allocationSize = bytes;
        allocate.memoryTypeIndex = type;
        REQUIRE(host.of<PFN_vkAllocateMemory>("vkAllocateMemory")(host.device, &allocate, nullptr, &memory_) ==
                VK_SUCCESS);
        void* mapped = nullptr;
        REQUIRE(host.of<PFN_vkMapMemory>("vkMapMemory")(host.device, memory_, 0, VK_WHOLE_SIZE, 0, &mapped) ==
                VK_SUCCESS);
        constexpr uint64_t kOffset = 131072;
        range = {sizeof range,
                 type,
                 reinterpret_cast<uint64_t>(memory_),
                 kOffset,
                 bytes - kOffset,
                 static_cast<std::byte*>(mapped) + kOffset};
    }
    ~Block() { host_.of<PFN_vkFreeMemory>("vkFreeMemory")(host_.device, memory_, nullptr); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    hk_memory_range range{};

private:
    Host& host_;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
};

// An allocator that counts, refuses all allocations after the first `most`, and aligns exactly as requested and no
// better.
struct Counted {
    hk_allocator allocator() {
        hk_allocator a{};
        a.struct_size = sizeof a;
        a.user = this;
        a.allocate = [](void* user, uint64_t bytes, uint64_t alignment) -> void* {
            auto& to = *static_cast<Counted*>(user);
            const std::lock_guard guard(to.mutex);
            if (++to.allocations > to.most) return nullptr;
            const std::size_t twice = 2 * static_cast<std::size_t>(alignment);
            const std::size_t size = (static_cast<std::size_t>(bytes + alignment) + twice - 1) / twice * twice;
            void* memory = static_cast<std::byte*>(std::aligned_alloc(twice, size)) + alignment;
            to.live[memory] = bytes;
            to.sum += bytes;
            return memory;
        };
        a.release = [](void* user, void* memory, uint64_t bytes, uint64_t alignment) {
            auto& to = *static_cast<Counted*>(user);
            const std::lock_guard guard(to.mutex);
            const auto found = to.live.find(memory);
            if (found == to.live.end() || found->second != bytes) {
                ++to.wrong;
                return;
            }
            to.live.erase(found);
            std::free(static_cast<std::byte*>(memory) - alignment);
        };
        return a;
    }
    bool all_back() {
        const std::lock_guard guard(mutex);
        return live.empty();
    }
    std::mutex mutex;
    std::map<void*, uint64_t> live;
    uint64_t allocations = 0, sum = 0, wrong = 0, most = UINT64_MAX;
};

int32_t without_device(hk_context& out, const hk_allocator& allocator, hk_error* error) {
    return make_context(out, error, [&](hk_context_options& o) {
        o.device_kind = HK_DEVICE_NONE;
        o.allocator = &allocator;
    });
}

// Creates a context and a training with this allocator and runs it to the end. Returns its code.
int32_t life(Host& host, const Place& place, Counted& counted, const char* out) {
    const Error error;
    const hk_allocator allocator = counted.allocator();
    std::filesystem::remove_all(place.folder / out);
    hk_context context{};
    int32_t code = host.context(context, error, [&](hk_context_options& o) { o.allocator = &allocator; });
    if (code != HK_OK) return code;
    const Training training(place, out, {"train.max_steps=2", "train.eval_steps=0"});
    hk_session session{};
    code = hk_session_train(context, &training.options, nullptr, &session, error);
    if (code == HK_OK) {
        hk_session_info info = state_of(session, 120 * kSecond);
        if (info.state == HK_SESSION_WORKING) {
            const uint64_t sum = counted.sum;
            code = hk_session_release_memory(session, 60 * kSecond, error);
            if (code == HK_OK) CHECK(counted.sum > sum + 100'000);               // it was in use
            if (code == HK_OK) code = hk_session_restore_memory(session, error); // otherwise it stays released
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (code == HK_OK && info.state == HK_SESSION_WORKING) {
            REQUIRE(std::chrono::steady_clock::now() < end);
            hk_advance given{};
            given.struct_size = sizeof given;
            given.microseconds = 5000.0;
            if (hk_session_advance(session, &given, nullptr, error) != HK_OK) break;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            info = state_of(session);
        }
        info = state_of(session);
        if (info.code != HK_OK) code = info.code;
        hk_session_destroy(session);
    }
    hk_context_destroy(context);
    return code;
}

// Does the same with two generation sessions with the model in `folder`, of several rows, and releases their memory in
// the middle of both. Continues after a refused allocation, since that must be possible.
int32_t writing_life(Host& host, Counted& counted, const std::string& folder) {
    const Error error;
    const hk_allocator allocator = counted.allocator();
    hk_context context{};
    int32_t code = host.context(context, error, [&](hk_context_options& o) { o.allocator = &allocator; });
    if (code != HK_OK) return code;
    Writing writings[2]{Writing(folder), Writing(folder)};
    const std::string texts[]{"line 1", "l", "li"};
    const hk_string prompts[]{view(texts[0]), view(texts[1]), view(texts[2])};
    hk_session sessions[2]{};
    for (int i = 0; i < 2 && code == HK_OK; ++i) {
        writings[i].options.prompts = prompts;
        writings[i].options.prompt_count = 3;
        code = hk_session_generate(context, &writings[i].options, nullptr, &sessions[i], error);
        if (code == HK_OK) state_of(sessions[i], 120 * kSecond); // prepared, or ended
    }
    const auto each = [&](auto&& f) {
        for (const hk_session session : sessions)
            if (session.id != 0) f(session);
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int turn = 0, running = 1; running > 0; ++turn) {
        REQUIRE(std::chrono::steady_clock::now() < end);
        running = 0;
        each([&](hk_session session) {
            hk_advance given{};
            given.struct_size = sizeof given;
            given.microseconds = 300.0;
            hk_session_advance(session, &given, nullptr, error);
            if (turn % 40 == 20) hk_session_release_memory(session, 10 * kSecond, error);
            if (turn % 40 == 21) hk_session_restore_memory(session, error);
            const hk_session_info info = state_of(session);
            if (info.code != HK_OK) code = info.code;
            const bool released = info.state == HK_SESSION_RELEASED && turn < 2000; // no memory was available for it
            running += info.state == HK_SESSION_WORKING || released ? 1 : 0;
        });
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    each([](hk_session session) { hk_session_destroy(session); });
    hk_context_destroy(context);
    return code;
}

// Runs `life` with all allocations after the first `most` refused. Returns whether it failed.
template<class Life>
bool refused_life(Counted& counted, uint64_t most, const Life& life) {
    CAPTURE(most);
    counted.allocations = 0;
    counted.most = most;
    const int32_t code = life();
    if (code != HK_OK) CHECK(code == HK_OUT_OF_MEMORY);
    CHECK(counted.live.empty());
    CHECK(counted.wrong == 0);
    CHECK_MESSAGE(FaultDriver::get().leaks().empty(), FaultDriver::get().leaks());
    return code != HK_OK;
}

} // namespace

TEST_CASE("a session's released memory is freed, and the session continues with the same bits") {
    FaultDriver& driver = FaultDriver::get();
    driver.reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const std::vector<std::string> averaged{"train.ema_decay=0.9", "train.eval_steps=0"};
    train(context, Training(place, "whole", averaged));
    const std::string weights = place.read("whole/model.safetensors");
    const uint64_t before = driver.memory_in_use();

    const Training training(place, "rested", averaged);
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    CHECK(hk_session_release_memory(session, 0, error) == HK_FAILED_PRECONDITION); // it is still preparing
    REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
    const uint64_t with = driver.memory_in_use();
    CHECK(with > before);
    uint64_t freed = 0;
    for (const uint64_t pieces : {uint64_t{0}, uint64_t{7}, uint64_t{1}, uint64_t{33}}) { // in the middle of steps
        advance_pieces(session, pieces);
        const uint64_t frees = driver.calls("vkFreeMemory");
        release(session);
        CHECK(driver.memory_in_use() == before);
        freed += driver.calls("vkFreeMemory") - frees;
        CHECK(hk_session_release_memory(session, 0, error) == HK_OK);
        const uint64_t submits = driver.calls("vkQueueSubmit2");
        const hk_advanced nothing = advance(session, 5000.0);
        CHECK(nothing.state == HK_SESSION_RELEASED);
        CHECK(nothing.pieces == 0);
        CHECK(driver.calls("vkQueueSubmit2") == submits);
        // If no memory is available, it stays released.
        FaultPlan none;
        none.allocation_cap = 1;
        driver.reset(none);
        CHECK(hk_session_restore_memory(session, error) == HK_OUT_OF_MEMORY);
        CHECK(state_of(session).state == HK_SESSION_RELEASED);
        CHECK(driver.memory_in_use() == before);
        driver.reset();
        restore(session);
        CHECK(driver.memory_in_use() >= with);
        CHECK(hk_session_restore_memory(session, error) == HK_OK);
    }
    CHECK(freed >= 4);
    run_until(session, HK_SESSION_DONE, 3000.0);
    CHECK(hk_session_release_memory(session, 0, error) == HK_FAILED_PRECONDITION);
    hk_session_destroy(session);
    CHECK(driver.memory_in_use() == before);
    CHECK(place.read("rested/model.safetensors") == weights);

    // A generation, released between two prompts and in the middle of one.
    Writing whole(place.at("whole"));
    REQUIRE(hk_generate(context, &whole.options, nullptr, error) == HK_OK);
    const std::string expected = whole.taken();
    Writing writing(place.at("whole"));
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &session, error) == HK_OK);
    REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
    advance_pieces(session, 20);
    release(session);
    restore(session);
    run_until(session, HK_SESSION_IDLE, 500.0);
    CHECK(writing.taken() == expected);
    release(session);
    CHECK(driver.memory_in_use() == before);
    restore(session);
    const std::string prompt = "line ";
    const hk_string prompts = view(prompt);
    REQUIRE(hk_session_prompt(session, &prompts, 1, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 500.0);
    CHECK(writing.taken() == expected);
    release(session);
    hk_session_destroy(session); // while it is released
    hk_context_destroy(context);
}

TEST_CASE("models of one body share its weights, whatever adapters they have") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "body"));
    const std::string from = "model.from=" + place.at("body");
    for (const char* name : {"a", "b"}) train(context, Training(place, name, {from, "adapter.id=lora"}));
    const std::string port = "hidden";
    const hk_string ports = view(port);
    std::vector<hk_session> sessions;
    const auto address = [&](hk_session session, const std::string& name) {
        hk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        const int32_t code = hk_session_parameter(session, view(name), HK_PARAMETER_VALUE, &tensor, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        return tensor.buffer.address + tensor.buffer.offset;
    };
    for (const char* name : {"body", "a", "b"}) {
        const std::string model = place.at(name);
        hk_forward_options options{};
        options.struct_size = sizeof options;
        options.model = view(model);
        options.rows = 1;
        options.length = 4;
        options.ports = &ports;
        options.port_count = 1;
        hk_session session{};
        const int32_t code = hk_session_forward(context, &options, nullptr, &session, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        const hk_session_info info = state_of(session, 120 * kSecond);
        REQUIRE_MESSAGE(info.state == HK_SESSION_IDLE, message_of(info));
        sessions.push_back(session);
    }
    const std::string table = "transformer.wte.weight", matrix = "adapter.transformer.h.0.attn.c_attn.lora_A.weight";
    CHECK(address(sessions[0], table) == address(sessions[1], table));
    CHECK(address(sessions[0], table) == address(sessions[2], table));
    CHECK(address(sessions[1], matrix) != address(sessions[2], matrix));
    for (const hk_session session : sessions) hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("sessions of one model share its weights, which are freed when all of them have released theirs") {
    FaultDriver& driver = FaultDriver::get();
    driver.reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "whole"));
    const std::string model = place.at("whole"), port = "hidden", name = "transformer.wte.weight";
    const hk_string ports = view(port);
    Writing alone(model);
    REQUIRE(hk_generate(context, &alone.options, nullptr, error) == HK_OK);
    const std::string expected = alone.taken();
    const uint64_t before = driver.memory_in_use();

    hk_forward_options options{};
    options.struct_size = sizeof options;
    options.model = view(model);
    options.rows = 1;
    options.length = 4;
    options.ports = &ports;
    options.port_count = 1;
    const auto forward = [&] {
        hk_session session{};
        const int32_t code = hk_session_forward(context, &options, nullptr, &session, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        return session;
    };
    const auto address = [&](hk_session session) {
        hk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        const int32_t code = hk_session_parameter(session, view(name), HK_PARAMETER_VALUE, &tensor, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        return tensor.buffer.address;
    };
    const auto is_idle = [](hk_session session) {
        const hk_session_info info = state_of(session, 120 * kSecond);
        REQUIRE_MESSAGE(info.state == HK_SESSION_IDLE, message_of(info));
    };
    // Started together: only one of them loads.
    const hk_session first = forward(), second = forward();
    Writing writing(model);
    hk_session text{};
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &text, error) == HK_OK);
    is_idle(first);
    is_idle(second);
    CHECK(address(first) == address(second));
    REQUIRE(state_of(text, 120 * kSecond).state == HK_SESSION_WORKING);

    // After one session releases them, the others still read the weights.
    advance_pieces(text, 7);
    const uint64_t there = address(second);
    release(first);
    CHECK(address(second) == there);
    advance_pieces(text, 7);
    release(second);
    advance_pieces(text, 7);
    release(text);
    CHECK(driver.memory_in_use() == before);
    // The first session that restores the weights restores them for all.
    restore(second);
    restore(text);
    run_until(text, HK_SESSION_IDLE, 500.0);
    CHECK(writing.taken() == expected);
    restore(first);
    CHECK(address(first) == address(second));

    // A new session finds them; one with another precision or changed files loads its own.
    const hk_session third = forward();
    is_idle(third);
    CHECK(address(third) == address(first));
    std::filesystem::last_write_time(place.folder / "whole" / "model.safetensors",
                                     std::filesystem::file_time_type::clock::now());
    const hk_session changed = forward();
    is_idle(changed);
    CHECK(address(changed) != address(first));
    for (const hk_session session : {first, changed, text, third}) hk_session_destroy(session);
    is_idle(second);
    hk_session_destroy(second);
    CHECK(driver.memory_in_use() == before);
    hk_context_destroy(context);
}

TEST_CASE("a session with released memory can be destroyed in every order") {
    FaultDriver& driver = FaultDriver::get();
    driver.reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const std::vector<std::string> endless{"train.max_steps=1000000", "train.eval_steps=0"};
    for (const bool leaves : {false, true}) {
        const Training training(place, leaves ? "left" : "destroyed", endless);
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
        while (training.steps < 2) advance(session, 5000.0);
        release(session);
        if (leaves) {
            // Saving the training's state needs its memory again.
            const int32_t code = hk_device_release(context, 120 * kSecond, error);
            REQUIRE_MESSAGE(code == HK_OK, error.message());
            CHECK(state_of(session).state == HK_SESSION_DONE);
            CHECK(std::filesystem::exists(place.folder / "left" / ("checkpoint-" + std::to_string(training.steps))));
        }
        hk_session_destroy(session);
    }
    CHECK(driver.leaks().empty());
    hk_context_destroy(context);
}

TEST_CASE("everything is stored in the host's memory, with the same bits, or an error reports that it does not fit") {
    FaultDriver& driver = FaultDriver::get();
    driver.reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "own"));
    hk_context_destroy(context);

    const uint64_t allocations = driver.calls("vkAllocateMemory");
    {
        const Block large(host, uint64_t{48} << 20), small(host, uint64_t{1} << 20);
        const std::array<hk_memory_range, 2> both{small.range, large.range};
        host.wrapped.memory_ranges = both.data();
        host.wrapped.memory_range_count = both.size();
        REQUIRE_MESSAGE(host.context(context, error) == HK_OK, error.message());
        train(context, Training(place, "given"));
        const Training training(place, "session");
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        state_of(session, 120 * kSecond);
        advance_pieces(session, 9);
        release(session);
        restore(session);
        run_until(session, HK_SESSION_DONE, 3000.0);
        hk_session_destroy(session);
        hk_context_destroy(context);
        CHECK(place.read("given/model.safetensors") == place.read("own/model.safetensors"));
        CHECK(place.read("session/model.safetensors") == place.read("own/model.safetensors"));

        host.wrapped.memory_range_count = 1;
        REQUIRE(host.context(context, error) == HK_OK);
        const Training refused(place, "refused");
        CHECK(hk_train(context, &refused.options, nullptr, error) == HK_OUT_OF_MEMORY);
        CHECK_MESSAGE(error.says("memory ranges have no room"), error.message());
        hk_context_destroy(context);

        const auto cannot = [&](const std::function<void(hk_memory_range&)>& change, const char* why) {
            hk_memory_range range = small.range;
            change(range);
            host.wrapped.memory_ranges = &range;
            CHECK(host.context(context, error) == HK_INVALID_ARGUMENT);
            CHECK_MESSAGE(error.says(why), error.message());
        };
        cannot([](hk_memory_range& r) { r.mapped = nullptr; }, "none is mapped");
        cannot([](hk_memory_range& r) { r.offset = 4096; }, "a multiple of 65536");
        cannot([](hk_memory_range& r) { r.memory_type = 77; }, "memory type 77");
        cannot([](hk_memory_range& r) { r.memory = 0; }, "no VkDeviceMemory");
        cannot([](hk_memory_range& r) { r.struct_size = 4; }, "sizeof(hk_memory_range)");
    }
    CHECK(driver.calls("vkAllocateMemory") == allocations);
    CHECK(driver.leaks().empty());
}

TEST_CASE("the host's allocator is used as the header documents, gets everything back, and may refuse") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    Counted counted;
    REQUIRE(life(host, place, counted, "run") == HK_OK);
    const uint64_t all = counted.allocations;
    CHECK(all > 50);
    CHECK(counted.live.empty());
    CHECK(counted.wrong == 0);
    int refused = 0;
    for (const uint64_t most : {uint64_t{0}, uint64_t{1}, all / 8, all / 3, all * 2 / 3, all - 3})
        refused += refused_life(counted, most, [&] { return life(host, place, counted, "refused"); }) ? 1 : 0;
    CHECK(refused > 2);
    const Error error;
    hk_allocator half = counted.allocator();
    half.release = nullptr;
    hk_context context{};
    CHECK(host.context(context, error, [&](hk_context_options& o) { o.allocator = &half; }) == HK_INVALID_ARGUMENT);
    CHECK(error.says("allocate and release are both needed"));
}

TEST_CASE("the host's allocator gets everything back, whichever allocation it refuses" * doctest::test_suite("long")) {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const auto sweep = [](Counted& counted, uint64_t points, const auto& life) {
        REQUIRE(life() == HK_OK);
        uint64_t all = counted.allocations; // on a busy machine more, since the work is submitted in more slices
        uint64_t refused = 0;
        for (uint64_t i = 0; i < points; ++i) {
            if (refused_life(counted, all * i / points + i * 7 % 13, life))
                ++refused;
            else
                all = std::min(all, counted.allocations);
        }
        CHECK(refused > points / 2);
    };
    Counted training, writing;
    sweep(training, 60, [&] { return life(host, place, training, "run"); });
    training.most = UINT64_MAX;
    REQUIRE(life(host, place, training, "run") == HK_OK);
    sweep(writing, 60, [&] { return writing_life(host, writing, place.at("run")); });
}

TEST_CASE("a context's plugin data is stored in the host's memory, in few allocations, which may be refused") {
    Counted counted, later;
    hk_allocator allocator = counted.allocator();
    const Error error;
    hk_context context{};
    REQUIRE_MESSAGE(without_device(context, allocator, error) == HK_OK, error.message());
    const uint64_t all = counted.allocations;
    CHECK(counted.sum > 50'000);
    CHECK(all < 20);
    CHECK(counted.live.size() == all);
    // The next allocator releases it.
    later.live = std::exchange(counted.live, {});
    const hk_allocator other = later.allocator();
    hk_context_callbacks callbacks{};
    callbacks.struct_size = sizeof callbacks;
    callbacks.allocator = &other;
    REQUIRE_MESSAGE(hk_context_replace_callbacks(context, &callbacks, error) == HK_OK, error.message());
    hk_context_destroy(context);
    CHECK(later.live.empty());
    for (counted.most = 0; counted.most < all; ++counted.most) {
        counted.allocations = 0;
        CHECK(without_device(context, allocator, error) == HK_OUT_OF_MEMORY);
        CHECK(counted.live.empty());
    }
    CHECK(counted.wrong + later.wrong == 0);
    allocator.release = nullptr;
    CHECK(without_device(context, allocator, error) == HK_INVALID_ARGUMENT);
}

TEST_CASE("after a context is destroyed its allocator may be too, even if calls on other threads are about to return") {
    const std::string nowhere = "/nowhere";
    const Error error;
    for (int round = 0; round < 30; ++round) {
        Counted counted;
        const hk_allocator allocator = counted.allocator();
        hk_context context{};
        REQUIRE_MESSAGE(without_device(context, allocator, error) == HK_OK, error.message());
        std::atomic<bool> calls{false};
        std::thread caller([&] {
            const Error of_call;
            hk_model model{};
            int32_t code = HK_OK;
            while (code != HK_INVALID_ARGUMENT) { // the context was destroyed
                code = hk_model_open(context, view(nowhere), &model, of_call);
                CHECK(code != HK_OK);
                calls = true;
            }
        });
        while (!calls) std::this_thread::yield();
        hk_context_destroy(context);
        const bool gone = counted.all_back();
        caller.join();
        CHECK(gone);
    }
}

TEST_CASE("destroying a context waits for sessions that other threads are creating or destroying") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    for (int round = 0; round < 6; ++round) {
        Counted counted;
        const hk_allocator allocator = counted.allocator();
        hk_context context{};
        REQUIRE(host.context(context, error, [&](hk_context_options& o) { o.allocator = &allocator; }) == HK_OK);
        std::atomic<int> made{0};
        std::thread other([&] {
            const Error of_call;
            const Training training(place, "made", {"train.max_steps=2", "train.eval_steps=0"});
            for (;;) {
                hk_session session{};
                const int32_t code = hk_session_train(context, &training.options, nullptr, &session, of_call);
                ++made;
                if (code == HK_INVALID_ARGUMENT) return; // the context was destroyed
                if (code == HK_OK) hk_session_destroy(session);
            }
        });
        while (made == 0) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(7 * round));
        hk_context_destroy(context);
        const bool gone = counted.all_back();
        const uint64_t calls = FaultDriver::get().calls();
        other.join();
        CHECK(gone);
        CHECK(FaultDriver::get().calls() == calls);
        CHECK_MESSAGE(FaultDriver::get().leaks().empty(), FaultDriver::get().leaks());
    }
}

} // namespace memory_test
