// Leak tests: after many lifecycles, after every order of destruction, and after a lost device.
#include "work.hpp"

#include <algorithm>
#include <malloc.h>

namespace lifetime_test {

using namespace hekla::test;

namespace {

// The process's system resources.
struct Held {
    std::ptrdiff_t descriptors = 0, threads = 0;
    int64_t kibibytes = 0; // allocated memory, including that of drivers and layers
};

Held held() {
    const auto entries = [](const char* folder) {
        return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
    };
    return {entries("/proc/self/fd"), entries("/proc/self/task"), static_cast<int64_t>(mallinfo2().uordblks / 1024)};
}

// Repeatedly creates and destroys a context with a session, using a model that was trained into `place` before.
void live(Host& host, const Place& place, int lives) {
    const Error error;
    for (int i = 0; i < lives; ++i) {
        hk_context context{};
        REQUIRE(host.context(context, error) == HK_OK);
        hk_session session{};
        const Writing writing(place.at("whole"));
        const Training training(place, "again", {"train.eval_steps=0"});
        REQUIRE((i % 2 == 0 ? hk_session_generate(context, &writing.options, nullptr, &session, error)
                            : hk_session_train(context, &training.options, nullptr, &session, error)) == HK_OK);
        const hk_session_info info = state_of(session, 120 * kSecond);
        REQUIRE_MESSAGE(info.state == HK_SESSION_WORKING, message_of(info));
        advance(session, 300.0);
        // Either may be destroyed first.
        if (i % 3 == 0) {
            hk_context_destroy(context);
            hk_session_destroy(session);
        } else {
            hk_session_destroy(session);
            hk_context_destroy(context);
        }
        CHECK_MESSAGE(FaultDriver::get().leaks().empty(), FaultDriver::get().leaks());
        std::filesystem::remove_all(place.folder / "again");
    }
}

void lives(int first, int more, int64_t allowed_kibibytes) {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "whole"));
    hk_context_destroy(context);
    live(host, place, first); // warm-up, since drivers and plugins stay loaded
    const Held before = held();
    for (int quarter = 0; quarter < 4; ++quarter) {
        live(host, place, more / 4);
        MESSAGE("quarter ", quarter + 1, ": ", held().kibibytes - before.kibibytes, " KiB more");
    }
    const Held after = held();
    CHECK(after.descriptors == before.descriptors);
    CHECK(after.threads == before.threads);
    CHECK(after.kibibytes - before.kibibytes < allowed_kibibytes);
}

} // namespace

TEST_CASE("contexts and sessions leak no descriptor, thread or memory") { lives(4, 8, 1024); }

TEST_CASE("after the device was lost everything can be destroyed in every order, without leaks") {
    FaultDriver& driver = FaultDriver::get();
    const Place place;
    Host host;
    const Error error;
    for (const std::array<int, 3>& order : {std::array{0, 1, 2}, std::array{2, 1, 0}, std::array{1, 2, 0},
                                            std::array{2, 0, 1}, std::array{0, 2, 1}, std::array{1, 0, 2}}) {
        driver.reset();
        hk_context context{};
        REQUIRE(host.context(context, error) == HK_OK);
        const Training one(place, "one", {"train.eval_steps=0"}), two(place, "two", {"train.eval_steps=0"});
        hk_session first{}, second{};
        REQUIRE(hk_session_train(context, &one.options, nullptr, &first, error) == HK_OK);
        REQUIRE(hk_session_train(context, &two.options, nullptr, &second, error) == HK_OK);
        REQUIRE(state_of(first, 120 * kSecond).state == HK_SESSION_WORKING);
        REQUIRE(state_of(second, 120 * kSecond).state == HK_SESSION_WORKING);
        REQUIRE(hk_session_release_memory(second, 60 * kSecond, error) == HK_OK);
        driver.fail_next("vkQueueSubmit2", 1, VK_ERROR_DEVICE_LOST);
        hk_advance given{};
        given.struct_size = sizeof given;
        given.microseconds = 3000.0;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        int32_t code = HK_OK;
        while (code == HK_OK) {
            REQUIRE(std::chrono::steady_clock::now() < end);
            code = hk_session_advance(first, &given, nullptr, error);
        }
        CHECK(code == HK_DEVICE_LOST);
        CHECK(hk_session_restore_memory(second, error) == HK_DEVICE_LOST);
        for (const int which : order) {
            if (which == 0) hk_context_destroy(context);
            if (which == 1) hk_session_destroy(first);
            if (which == 2) hk_session_destroy(second);
        }
        CHECK_MESSAGE(driver.leaks().empty(), driver.leaks());
        CHECK(driver.memory_in_use() == 0);
        std::filesystem::remove_all(place.folder / "one");
        std::filesystem::remove_all(place.folder / "two");
    }
}

TEST_SUITE("long") {
    TEST_CASE("a thousand contexts and sessions leak nothing") { lives(20, 1000, 16 * 1024); }
}

} // namespace lifetime_test
