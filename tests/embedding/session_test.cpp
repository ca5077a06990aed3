// Sessions: training and generation within budgets, in the host's command buffers, stopped and destroyed at any time.
#include "work.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

namespace session_test {

using namespace hekla::test;
namespace fs = std::filesystem;

TEST_CASE("a training within budgets has the same bits as one without, and a generation the same tokens") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const std::vector<std::string> averaged{"train.ema_decay=0.9"}; // its program is also prepared
    train(context, Training(place, "whole", averaged));
    CHECK(FaultDriver::get().calls("vkCmdBeginDebugUtilsLabelEXT") > 100); // the host's instance has debug utils
    CHECK(FaultDriver::get().calls("vkCmdBeginDebugUtilsLabelEXT") ==
          FaultDriver::get().calls("vkCmdEndDebugUtilsLabelEXT"));
    const std::string weights = place.read("whole/model.safetensors");
    REQUIRE(!weights.empty());
    const Error error;
    for (const double budget : {4000.0, 100.0}) {
        const char* out = budget > 1000.0 ? "large" : "small";
        Training training(place, out, averaged);
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        const hk_session_info ready = state_of(session, 120 * kSecond);
        REQUIRE_MESSAGE(ready.state == HK_SESSION_WORKING, message_of(ready));
        CHECK(ready.progress == 1.0);
        // From here on nothing is compiled and no memory is allocated.
        const uint64_t allocations = FaultDriver::get().calls("vkAllocateMemory");
        const uint64_t pipelines = FaultDriver::get().calls("vkCreateComputePipelines");
        run_until(session, HK_SESSION_DONE, budget);
        CHECK(FaultDriver::get().calls("vkAllocateMemory") == allocations);
        CHECK(FaultDriver::get().calls("vkCreateComputePipelines") == pipelines);
        const hk_session_info done = state_of(session);
        CHECK(done.step == 6);
        CHECK(training.steps == 6);
        CHECK(done.stopped == 0);
        CHECK(done.longest > 0.0);
        hk_session_destroy(session);
        CHECK(place.read((std::string(out) + "/model.safetensors").c_str()) == weights);
    }

    Writing whole(place.at("whole"));
    REQUIRE(hk_generate(context, &whole.options, nullptr, error) == HK_OK);
    const std::string expected = whole.taken();
    REQUIRE(expected.size() >= 24);
    Writing other(place.at("whole"), "of the");
    REQUIRE(hk_generate(context, &other.options, nullptr, error) == HK_OK);
    const std::string expected_of_other = other.taken();

    Writing writing(place.at("whole"));
    hk_session_options own{};
    own.struct_size = sizeof own;
    own.length = 60;
    hk_session session{};
    REQUIRE(hk_session_generate(context, &writing.options, &own, &session, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 500.0);
    CHECK(writing.taken() == expected);
    const uint64_t allocations = FaultDriver::get().calls("vkAllocateMemory");
    const uint64_t pipelines = FaultDriver::get().calls("vkCreateComputePipelines");
    for (const bool again : {false, true}) {
        const std::string next = again ? "line " : "of the";
        const hk_string given = view(next);
        REQUIRE(hk_session_prompt(session, &given, 1, error) == HK_OK);
        run_until(session, HK_SESSION_IDLE, 500.0);
        CHECK(writing.taken() == (again ? expected : expected_of_other));
    }
    CHECK(FaultDriver::get().calls("vkAllocateMemory") == allocations);
    CHECK(FaultDriver::get().calls("vkCreateComputePipelines") == pipelines);
    hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a training with completions of its own has the same bits in a session") {
    FaultDriver::get().reset();
    const Place place;
    std::ofstream(place.folder / "prompts.jsonl")
        << "{\"prompt\": \"line\"}\n{\"prompt\": \"text\"}\n{\"prompt\": \"of\"}\n";
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const std::vector<std::string> rollouts{"objective.id=grpo",         "data.train=" + place.at("prompts.jsonl"),
                                            "rollout.batch=8",           "rollout.num_generations=2",
                                            "rollout.response_length=4", "rewards.short.id=length",
                                            "rewards.short.target=2",    "train.eval_steps=0",
                                            "train.context_length=16"};
    train(context, Training(place, "whole", rollouts));
    const std::string weights = place.read("whole/model.safetensors");
    REQUIRE(!weights.empty());
    const Error error;
    for (const double budget : {4000.0, 300.0}) {
        const char* out = budget > 1000.0 ? "large" : "small";
        Training training(place, out, rollouts);
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        run_until(session, HK_SESSION_DONE, budget);
        CHECK(state_of(session).step == 6);
        CHECK(training.steps == 6);
        hk_session_destroy(session);
        CHECK((place.read((std::string(out) + "/model.safetensors").c_str()) == weights));
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a session with adapters: each prompt has its own, again and again") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "body"));
    const std::string from = "model.from=" + place.at("body");
    train(context, Training(place, "a", {from, "adapter.id=lora", "train.learning_rate=3", "train.max_steps=4"}));
    train(context, Training(place, "b",
                            {from, "adapter.id=lora", "train.learning_rate=3", "train.max_steps=6", "train.seed=3"}));
    const Error error;
    const auto alone = [&](const std::string& adapter) {
        Writing writing(place.at("body"));
        const std::string use = "it=" + place.at(adapter.c_str());
        const hk_string uses = view(use);
        if (adapter != "body") writing.options.adapters = &uses, writing.options.adapter_count = 1;
        const int32_t code = hk_generate(context, &writing.options, nullptr, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        return writing.taken();
    };
    const std::string expected[] = {alone("a"), alone("body"), alone("b")};
    CHECK(expected[0] != expected[1]);
    CHECK(expected[2] != expected[1]);

    const std::string folders[] = {"first=" + place.at("a"), "second=" + place.at("b")},
                      names[] = {"first", "", "second"};
    const hk_string adapters[] = {view(folders[0]), view(folders[1])};
    const hk_string rows[] = {view(names[0]), view(names[1]), view(names[2])};
    const std::string line = "line ";
    const hk_string prompts[] = {view(line), view(line), view(line)};
    std::string texts[3];
    hk_generate_options options{};
    hk_generate_defaults(&options);
    const std::string model = place.at("body");
    options.model = view(model);
    options.prompts = prompts;
    options.prompt_count = 3;
    options.max_new_tokens = 24;
    options.greedy = 1;
    options.adapters = adapters;
    options.adapter_count = 2;
    options.prompt_adapters = rows;
    options.user = texts;
    options.text = [](void* user, uint64_t row, hk_string piece) {
        static_cast<std::string*>(user)[row].append(piece.data, static_cast<std::size_t>(piece.size));
    };
    hk_session session{};
    REQUIRE_MESSAGE(hk_session_generate(context, &options, nullptr, &session, error) == HK_OK, error.message());
    for (int again = 0; again < 2; ++again) {
        run_until(session, HK_SESSION_IDLE, 1000.0);
        for (int row = 0; row < 3; ++row) CHECK(std::exchange(texts[row], std::string()) == expected[row]);
        if (again == 0) REQUIRE(hk_session_prompt(session, prompts, 3, error) == HK_OK);
    }
    hk_session_destroy(session);
    const std::string wrong = "third";
    const hk_string unknown[] = {view(names[0]), view(wrong), view(names[1])};
    options.prompt_adapters = unknown;
    CHECK(hk_generate(context, &options, nullptr, error) == HK_INVALID_ARGUMENT);
    CHECK_MESSAGE(error.says("prompt 2: 'third' is not an adapter; expected one of first, second"), error.message());
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("recorded into the host's command buffers, leased until the host signals") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "whole"));
    const Error error;
    Writing whole(place.at("whole"));
    REQUIRE(hk_generate(context, &whole.options, nullptr, error) == HK_OK);
    const std::string expected = whole.taken();

    const Frames frames(host);
    Writing writing(place.at("whole"));
    hk_session session{};
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &session, error) == HK_OK);
    hk_session_info info = state_of(session, 120 * kSecond);
    uint64_t value = 0, recorded = 0;
    bool refused = false;
    for (int frame = 0; info.state == HK_SESSION_WORKING && frame < 100000; ++frame) {
        const VkCommandBuffer commands = frames.begin(frame);
        hk_advance given{};
        given.struct_size = sizeof given;
        given.microseconds = 1.0; // one piece a frame, however fast the device is
        given.command_buffer = commands;
        given.lease = {frames.semaphore_bits(), value + 1};
        hk_advanced out{};
        out.struct_size = sizeof out;
        const int32_t code = hk_session_advance(session, &given, &out, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        if (out.pieces > 0) {
            CHECK(out.pieces == 1);
            ++recorded;
            // A lease with the same point is rejected while the memory is still leased.
            CHECK(hk_session_advance(session, &given, &out, error) == HK_INVALID_ARGUMENT);
            CHECK_MESSAGE(error.says("lease"), error.message());
            refused = true;
        }
        frames.submit(frame, ++value);
        info = state_of(session);
        if (out.pieces == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    REQUIRE_MESSAGE(info.state == HK_SESSION_IDLE, message_of(info));
    CHECK(refused);
    CHECK(recorded > 20);
    CHECK(writing.taken() == expected);
    // A lease without a semaphore, and one together with signals.
    hk_advance given{};
    given.struct_size = sizeof given;
    given.microseconds = 300.0;
    given.command_buffer = frames.begin(0);
    CHECK(hk_session_advance(session, &given, nullptr, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("hk_advance.lease.semaphore is 0"));
    const hk_timeline point{frames.semaphore_bits(), value + 1};
    given.lease = point;
    given.signals = &point;
    given.signal_count = 1;
    CHECK(hk_session_advance(session, &given, nullptr, error) == HK_INVALID_ARGUMENT);
    frames.submit(0, ++value);
    hk_session_destroy(session);
    hk_context_destroy(context);
    frames.wait(value);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a host and the engine wait for each other on one timeline") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const Frames frames(host);
    const Error error;
    Training training(place, "run");
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    hk_session_info info = state_of(session, 120 * kSecond);
    uint64_t value = 0;
    for (int frame = 0; info.state == HK_SESSION_WORKING && frame < 100000; ++frame) {
        // The host's frame signals value + 1, the engine waits for it and signals value + 2, which the next frame
        // waits for.
        static_cast<void>(frames.begin(frame));
        frames.submit(frame, value + 1, value);
        const hk_timeline wait{frames.semaphore_bits(), value + 1}, signal{frames.semaphore_bits(), value + 2};
        hk_advance given{};
        given.struct_size = sizeof given;
        given.microseconds = 2000.0;
        given.waits = &wait;
        given.wait_count = 1;
        given.signals = &signal;
        given.signal_count = 1;
        hk_advanced out{};
        out.struct_size = sizeof out;
        do { // busy, since nothing was signaled either
            const int32_t code = hk_session_advance(session, &given, &out, error);
            REQUIRE_MESSAGE(code == HK_OK, error.message());
        } while (out.busy != 0);
        value += 2;
        info = state_of(session);
    }
    REQUIRE_MESSAGE(info.state == HK_SESSION_DONE, message_of(info));
    frames.wait(value);
    hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a session ends in every order: stopped, destroyed while running, or after its device was released") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const Error error;
    const std::vector<std::string> endless{"train.max_steps=1000000", "train.eval_steps=0"};
    {
        Training training(place, "stopped", endless);
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        state_of(session, 120 * kSecond);
        while (training.steps < 2) advance(session, 5000.0);
        REQUIRE(hk_session_stop(session, error) == HK_OK);
        run_until(session, HK_SESSION_DONE, 5000.0);
        CHECK(state_of(session).stopped == 1);
        CHECK(fs::exists(place.folder / "stopped" / ("checkpoint-" + std::to_string(training.steps))));
        hk_session_destroy(session);
    }
    for (const int after : {0, 1, 40}) { // while it prepares; in the middle of a step
        Training training(place, "destroyed", endless);
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        if (after > 0) state_of(session, 120 * kSecond);
        for (int i = 0; i < after; ++i) advance(session, 200.0);
        hk_session_destroy(session);
        hk_advance given{};
        given.struct_size = sizeof given;
        CHECK(hk_session_advance(session, &given, nullptr, error) == HK_INVALID_ARGUMENT);
        CHECK(error.says("session was destroyed"));
    }
    {
        // The device is released first: the training ends with a checkpoint, and then no Vulkan function is called.
        Training training(place, "left", endless);
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        state_of(session, 120 * kSecond);
        while (training.steps < 2) advance(session, 5000.0);
        advance(session, 200.0); // the next step has begun
        const int32_t released = hk_device_release(context, 120 * kSecond, error);
        REQUIRE_MESSAGE(released == HK_OK, error.message());
        CHECK(FaultDriver::get().leaks().empty());
        const uint64_t calls = FaultDriver::get().calls();
        CHECK(state_of(session).state == HK_SESSION_DONE);
        CHECK(fs::exists(place.folder / "left" / ("checkpoint-" + std::to_string(training.steps))));
        hk_advance given{};
        given.struct_size = sizeof given;
        given.microseconds = 100.0;
        CHECK(hk_session_advance(session, &given, nullptr, error) == HK_FAILED_PRECONDITION);
        CHECK(error.says("released"));
        hk_session_destroy(session);
        CHECK(hk_session_train(context, &training.options, nullptr, &session, error) == HK_FAILED_PRECONDITION);
        CHECK(FaultDriver::get().calls() == calls);
    }
    hk_context_destroy(context);
}

TEST_CASE("invalid options are rejected with a message; a session that fails reports why") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const Error error;
    hk_session session{};
    Training training(place, "run");
    hk_session_options own{};
    own.struct_size = sizeof own;
    own.microseconds = -1.0;
    CHECK(hk_session_train(context, &training.options, &own, &session, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("hk_session_options.microseconds is -1"));
    own.struct_size = 4;
    CHECK(hk_session_train(context, &training.options, &own, &session, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("sizeof(hk_session_options)"));
    Writing writing("nowhere/at/all");
    writing.options.beams = 4;
    CHECK(hk_session_generate(context, &writing.options, nullptr, &session, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("beams"));
    CHECK(session.id == 0);
    hk_session_info info{};
    info.struct_size = sizeof info;
    CHECK(hk_session_wait(session, 0, &info, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("session is null"));
    CHECK(hk_session_wait(hk_session{context.id}, 0, &info, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("session is not a handle of this kind"));

    writing.options.beams = 0;
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &session, error) == HK_OK);
    info = state_of(session, 60 * kSecond);
    CHECK(info.state == HK_SESSION_FAILED);
    CHECK(info.code != HK_OK);
    CHECK_MESSAGE(message_of(info).find("nowhere/at/all") != std::string::npos, message_of(info));
    hk_advance given{};
    given.struct_size = sizeof given;
    given.microseconds = 100.0;
    CHECK(hk_session_advance(session, &given, nullptr, error) == info.code);
    given.microseconds = -1.0;
    CHECK(hk_session_advance(session, &given, nullptr, error) == HK_INVALID_ARGUMENT);
    const std::string text = "a";
    const hk_string prompt = view(text);
    CHECK(hk_session_prompt(session, &prompt, 1, error) == HK_FAILED_PRECONDITION);
    hk_session_destroy(session);
    hk_session_destroy(session);
    hk_session_destroy(hk_session{0});
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a host's own cache: compiled kernels are not compiled again, and no file is written") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    struct ReadOnlyArena {
        std::mutex mutex;
        std::map<std::string, std::string> entries;
        int loaded = 0;
    } kept;
    hk_cache cache{};
    cache.struct_size = sizeof cache;
    cache.user = &kept;
    cache.load = [](void* user, hk_string name, void* to, void (*give)(void* to, const void* bytes, uint64_t size)) {
        auto& k = *static_cast<ReadOnlyArena*>(user);
        const std::lock_guard guard(k.mutex);
        const auto found = k.entries.find(std::string(name.data, static_cast<std::size_t>(name.size)));
        if (found == k.entries.end()) return;
        ++k.loaded;
        give(to, found->second.data(), found->second.size());
    };
    cache.store = [](void* user, hk_string name, const void* bytes, uint64_t size) {
        auto& k = *static_cast<ReadOnlyArena*>(user);
        const std::lock_guard guard(k.mutex);
        k.entries[std::string(name.data, static_cast<std::size_t>(name.size))] =
            std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
    };
    hk_context context{};
    const Error error;
    const auto make = [&] {
        REQUIRE(host.context(context, error, [&](hk_context_options& o) { o.cache = &cache; }) == HK_OK);
    };
    make();
    train(context, Training(place, "whole"));
    hk_context_destroy(context);
    CHECK(!kept.entries.empty());
    const std::size_t before = kept.entries.size();
    CHECK(kept.loaded == 0);
    make();
    train(context, Training(place, "again"));
    CHECK(kept.loaded > 0);
    CHECK(kept.entries.size() == before);
    CHECK(place.read("again/model.safetensors") == place.read("whole/model.safetensors"));
    // Damaged entries are replaced.
    for (auto& [name, content] : kept.entries)
        content[content.size() / 2] = static_cast<char>(~content[content.size() / 2]);
    hk_context_destroy(context);
    make();
    train(context, Training(place, "damaged"));
    CHECK(place.read("damaged/model.safetensors") == place.read("whole/model.safetensors"));
    hk_context_destroy(context);
    cache.store = nullptr;
    CHECK(host.context(context, error, [&](hk_context_options& o) { o.cache = &cache; }) == HK_INVALID_ARGUMENT);
    CHECK(error.says("load and store are both needed"));

    // The host's VkPipelineCache is used, but not destroyed.
    VkPipelineCacheCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    VkPipelineCache pipelines = VK_NULL_HANDLE;
    REQUIRE(host.of<PFN_vkCreatePipelineCache>("vkCreatePipelineCache")(host.device, &create, nullptr, &pipelines) ==
            VK_SUCCESS);
    host.wrapped.pipeline_cache = reinterpret_cast<uint64_t>(pipelines);
    FaultDriver::get().reset();
    REQUIRE(host.context(context, error) == HK_OK);
    CHECK(FaultDriver::get().calls("vkCreatePipelineCache") == 0);
    train(context, Training(place, "pipelines"));
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
    host.of<PFN_vkDestroyPipelineCache>("vkDestroyPipelineCache")(host.device, pipelines, nullptr);
    for (const char* name : {"again", "pipelines"})
        for (const auto& entry : fs::directory_iterator(place.folder / name))
            CHECK_MESSAGE(!entry.path().filename().string().starts_with("pipelines-"), entry.path());
}

namespace {

void cap_memory(bool all) {
    const Place place;
    Host host;
    const Error error;
    int ran = 0, refused = 0;
    for (uint64_t kib = 64; kib <= 64 * 1024; kib *= all ? 2 : 8) {
        FaultDriver::get().reset();
        CAPTURE(kib);
        hk_context context{};
        REQUIRE(host.context(context, error, [&](hk_context_options& o) { o.memory_cap = kib << 10; }) == HK_OK);
        Training training(place, "run", {"train.max_steps=1", "train.eval_steps=0"});
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        hk_session_info info = state_of(session, 120 * kSecond);
        if (info.state == HK_SESSION_FAILED) {
            ++refused;
            CHECK(info.code == HK_OUT_OF_MEMORY);
            CHECK_MESSAGE(message_of(info).find("cap") != std::string::npos, message_of(info));
        } else {
            ++ran;
            run_until(session, HK_SESSION_DONE, 1e6);
        }
        hk_session_destroy(session);
        hk_context_destroy(context);
        fs::remove_all(place.folder / "run");
        CHECK_MESSAGE(FaultDriver::get().leaks().empty(), FaultDriver::get().leaks());
    }
    CHECK(ran > 0);
    CHECK(refused > 0);
}

// Runs a short training in a session, from creating the context to destroying it, with any failure; returns its code,
// and checks for leaks.
int32_t whole_life(const Place& place, Host& host, std::string& message) {
    fs::remove_all(place.folder / "run");
    const Error error;
    hk_context context{};
    int32_t code = host.context(context, error);
    if (code == HK_OK) {
        const Training training(place, "run", {"train.max_steps=2", "train.eval_steps=1"});
        hk_session session{};
        code = hk_session_train(context, &training.options, nullptr, &session, error);
        hk_session_info info{};
        info.struct_size = sizeof info;
        if (code == HK_OK) {
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            do {
                std::this_thread::sleep_for(std::chrono::microseconds(100));
                REQUIRE(hk_session_wait(session, 60 * kSecond, &info, nullptr) == HK_OK);
                hk_advance given{};
                given.struct_size = sizeof given;
                given.microseconds = 2000.0;
                code = hk_session_advance(session, &given, nullptr, error);
                REQUIRE(std::chrono::steady_clock::now() < end);
            } while (info.state == HK_SESSION_WORKING && code == HK_OK);
            message = code != HK_OK ? error.message() : message_of(info);
            if (code == HK_OK) code = info.code;
            hk_session_destroy(session);
        } else {
            message = error.message();
        }
        hk_context_destroy(context);
    } else {
        message = error.message();
    }
    return code;
}

void fail_each(bool all) {
    const Place place;
    Host host;
    FaultDriver& driver = FaultDriver::get();
    driver.reset();
    std::string message;
    REQUIRE(whole_life(place, host, message) == HK_OK);
    std::map<std::string, uint64_t> turns;
    for (const std::string& name : functions_that_can_fail()) turns[name] = driver.calls(name);
    int cases = 0;
    for (const auto& [name, calls] : turns) {
        for (const VkResult result : {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST}) {
            if (!all && result == VK_ERROR_DEVICE_LOST && name != "vkQueueSubmit2" && name != "vkWaitSemaphores")
                continue;
            std::set<uint64_t> which{(calls + 1) / 2};
            if (all) which.insert({1, 2, 3, 5, calls / 3, calls * 2 / 3});
            for (const uint64_t nth : which) {
                if (nth == 0 || nth > calls) continue;
                CAPTURE(name);
                CAPTURE(nth);
                CAPTURE(result);
                FaultPlan plan;
                plan.faults = {{name, nth, result}};
                driver.reset(plan);
                message.clear();
                const int32_t code = whole_life(place, host, message);
                if (!driver.fault_happened()) continue; // the number of calls depends on the device's speed
                ++cases;
                // The allocator tries another memory type; failing debug names and caches are not errors.
                if (code != HK_OK) CHECK(!message.empty());
                if (code != HK_OK && result == VK_ERROR_OUT_OF_DEVICE_MEMORY) CHECK(code == HK_OUT_OF_MEMORY);
                CHECK_MESSAGE(driver.leaks().empty(), driver.leaks());
                CHECK(driver.memory_in_use() == 0);
                const std::string validation = host.messages();
                CHECK_MESSAGE(validation.empty(), validation);
            }
        }
    }
    MESSAGE(cases, " faults");
    CHECK(cases > 15);
    driver.reset();
    CHECK(whole_life(place, host, message) == HK_OK); // the host can continue
}

} // namespace

TEST_CASE("a memory cap holds: a session runs within it or reports what it needs") { cap_memory(false); }

TEST_CASE("a session whose Vulkan call fails ends with an error, without leaks" * doctest::test_suite("long")) {
    fail_each(false);
}

TEST_CASE("starting a session on a lost device is an error") {
    const Place place;
    Host host;
    FaultPlan plan;
    plan.faults = {{"vkQueueSubmit2", 1, VK_ERROR_DEVICE_LOST}};
    FaultDriver::get().reset(plan);
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context, error) == HK_OK);
    for (const char* name : {"first", "second"}) {
        CAPTURE(name);
        const Training training(place, name, {});
        hk_session session{};
        int32_t code = hk_session_train(context, &training.options, nullptr, &session, error);
        if (code == HK_OK) {
            code = state_of(session, 60 * kSecond).code;
            hk_session_destroy(session);
        }
        CHECK(code == HK_DEVICE_LOST);
    }
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
    FaultDriver::get().reset();
}

TEST_SUITE("long") {
    TEST_CASE("memory caps from absurd to ample") { cap_memory(true); }

    TEST_CASE("a session whose Vulkan call fails, at any of many calls") { fail_each(true); }
}

} // namespace session_test
