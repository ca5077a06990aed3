// Typical work of an app: a small model is trained and used for generation, in calls and in sessions.
#pragma once

#include "host.hpp"
#include "support/test_folder.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

namespace hekla::test {

inline constexpr uint64_t kSecond = 1'000'000'000;

inline hk_string view(const std::string& s) { return {s.data(), s.size()}; }

// A folder with a recipe for a small GPT-2 on a few lines.
struct Place {
    Place() {
        std::string text;
        for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i * i % 97) + " of the text, and some more\n";
        folder.write("text.txt", text);
        std::ofstream(folder / "recipe.toml")
            << "[model]\narchitecture = \"gpt2\"\nn_embd = 32\nn_layer = 2\nn_head = 2\nn_positions = 64\n[objective]\n"
               "id = \"clm\"\n[head]\nid = \"lm\"\n[tokenizer]\nkind = \"char\"\n[data]\ntrain = "
            << (folder / "text.txt")
            << "\n[train]\nmax_steps = 6\ncontext_length = 32\nper_device_train_batch_size = 4\nsave_steps = 0\n"
               "eval_steps = 3\neval_batches = 2\n[output]\ndir = "
            << (folder / "run") << "\n";
    }
    std::string recipe() const { return (folder / "recipe.toml").string(); }
    std::string at(const char* name) const { return (folder / name).string(); }
    std::string read(const char* name) const { return folder.read(name); }
    TestFolder folder;
};

// A training of the recipe in `place`, with its own output folder.
struct Training {
    Training(const Place& place, const char* out, std::vector<std::string> more = {}) : recipe(place.recipe()) {
        overrides = std::move(more);
        overrides.push_back("output.dir=" + place.at(out));
        for (const std::string& one : overrides) strings.push_back(view(one));
        options.struct_size = sizeof options;
        options.recipe = view(recipe);
        options.overrides = strings.data();
        options.override_count = strings.size();
        options.user = this;
        options.step = [](void* user, const hk_train_step* step) { static_cast<Training*>(user)->steps = step->step; };
    }
    std::string recipe;
    std::vector<std::string> overrides;
    std::vector<hk_string> strings;
    hk_train_options options{};
    std::atomic<int64_t> steps{0};
};

struct Writing {
    explicit Writing(const std::string& folder, std::string prompt = "line ")
        : model(folder), first(std::move(prompt)) {
        prompt_view = view(first);
        hk_generate_defaults(&options);
        options.model = view(model);
        options.prompts = &prompt_view;
        options.prompt_count = 1;
        options.max_new_tokens = 24;
        options.greedy = 1;
        options.user = this;
        options.text = [](void* user, uint64_t, hk_string piece) {
            auto& to = *static_cast<Writing*>(user);
            const std::lock_guard guard(to.mutex);
            to.text.append(piece.data, static_cast<std::size_t>(piece.size));
        };
    }
    std::string taken() {
        const std::lock_guard guard(mutex);
        return std::exchange(text, std::string());
    }
    std::string model, first;
    hk_string prompt_view{};
    hk_generate_options options{};
    std::mutex mutex;
    std::string text;
};

inline hk_session_info state_of(hk_session session, uint64_t nanoseconds = 0) {
    hk_session_info info{};
    info.struct_size = sizeof info;
    const Error error;
    const int32_t code = hk_session_wait(session, nanoseconds, &info, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return info;
}

inline std::string message_of(const hk_session_info& info) {
    return {info.message.data, static_cast<std::size_t>(info.message.size)};
}

inline hk_advanced advance(hk_session session, double microseconds) {
    hk_advance given{};
    given.struct_size = sizeof given;
    given.microseconds = microseconds;
    hk_advanced out{};
    out.struct_size = sizeof out;
    const Error error;
    const int32_t code = hk_session_advance(session, &given, &out, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return out;
}

// Advances until the session is in this state. Returns the number of frames that did some of its work.
inline int64_t run_until(hk_session session, int32_t state, double microseconds) {
    hk_session_info info = state_of(session, 120 * kSecond);
    int64_t frames = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (info.state != state) {
        REQUIRE_MESSAGE(info.state != HK_SESSION_FAILED, message_of(info));
        REQUIRE(std::chrono::steady_clock::now() < end);
        if (advance(session, microseconds).pieces == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        else
            ++frames;
        info = state_of(session);
    }
    return frames;
}

inline void train(hk_context context, const Training& training) {
    const Error error;
    const int32_t code = hk_train(context, &training.options, nullptr, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
}

} // namespace hekla::test
