// Threads: Hekla's own have names; of a context that begins none, the host's do everything.
#include "work.hpp"

#include <algorithm>

using namespace hekla::testing;

namespace {

std::vector<std::string> thread_names() {
    std::vector<std::string> names;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(task.path() / "comm");
        std::string name;
        std::getline(file, name);
        names.push_back(name);
    }
    return names;
}

std::ptrdiff_t count_of(const std::string& name) { return std::ranges::count(thread_names(), name); }

// A driver's threads are called as the one that began them: only differences count.
std::ptrdiff_t ours() {
    return std::ranges::count_if(thread_names(), [](const std::string& name) { return name.starts_with("hekla "); });
}

} // namespace

TEST_CASE("sessions and batches have threads with names, which end with them") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const Training training(place, "run");
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    CHECK(hk_session_run(session, error) == HK_FAILED_PRECONDITION);
    CHECK_MESSAGE(error.says("has a thread"), error.message());
    REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
    while (training.steps < 1) advance(session, 5000.0);
    const std::ptrdiff_t sessions = count_of("hekla session");
    CHECK(sessions > 0);
    CHECK(count_of("hekla batches") == 1);
    hk_session_destroy(session);
    CHECK(count_of("hekla session") == sessions - 1);
    CHECK(count_of("hekla batches") == 0);
    hk_context_destroy(context);
}

TEST_CASE("a context that begins no threads: sessions run where the host runs them, with the same bits") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "whole"));
    const std::string weights = place.read("whole/model.safetensors");
    hk_context_destroy(context);

    REQUIRE(host.context(context, error, [](hk_context_options& o) { o.no_threads = 1; }) == HK_OK);
    const std::ptrdiff_t before = ours();
    std::ptrdiff_t most = before;
    Training call(place, "call");
    call.options.user = &most;
    call.options.step = [](void* user, const hk_train_step*) {
        auto& sum = *static_cast<std::ptrdiff_t*>(user);
        sum = std::max(sum, ours());
    };
    train(context, call);
    CHECK(most == before);
    CHECK(place.read("call/model.safetensors") == weights);

    const Training training(place, "session");
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    CHECK(state_of(session, 1000).state == HK_SESSION_PREPARING); // nobody has run it
    std::thread of_the_host([&] {
        const Error own;
        CHECK(hk_session_run(session, own) == HK_OK);
    });
    const int64_t frames = run_until(session, HK_SESSION_DONE, 2000.0);
    CHECK(frames > 1);
    of_the_host.join();
    CHECK(hk_session_run(session, error) == HK_FAILED_PRECONDITION);
    CHECK_MESSAGE(error.says("has ended"), error.message());
    hk_session_destroy(session);
    CHECK(ours() == before);
    CHECK(place.read("session/model.safetensors") == weights);

    // One that nobody ran ends; one that runs elsewhere is waited for.
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    hk_session_destroy(session);
    Writing writing(place.at("whole"));
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &session, error) == HK_OK);
    std::thread another([&] {
        const Error own;
        static_cast<void>(hk_session_run(session, own));
    });
    REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
    advance(session, 500.0);
    hk_session_destroy(session);
    another.join();
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &session, error) == HK_OK);
    const int32_t released = hk_device_release(context, 10 * kSecond, error); // with one that nobody runs
    CHECK_MESSAGE(released == HK_OK, error.message());
    hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}
