// Several threads release and restore the memory of one session, each with its own request.
#include "work.hpp"

#include <array>
#include <condition_variable>

namespace memory_requests_test {

using namespace hekla::test;

namespace {

// A step callback that blocks until open() is called.
class Gate {
public:
    static void step(void* user, const hk_train_step*) {
        auto& gate = *static_cast<Gate*>(user);
        std::unique_lock lock(gate.mutex_);
        gate.inside_ = true;
        gate.changed_.notify_all();
        gate.changed_.wait(lock, [&] { return gate.open_; });
    }
    void open() {
        {
            const std::lock_guard guard(mutex_);
            open_ = true;
        }
        changed_.notify_all();
    }
    bool inside() {
        const std::lock_guard guard(mutex_);
        return inside_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false, inside_ = false;
};

} // namespace

TEST_CASE("a caller whose timeout expires does not cancel the release that another caller waits for") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    Gate gate;
    Training training(place, "run", {"train.max_steps=1000000", "train.eval_steps=0"});
    training.options.user = &gate;
    training.options.step = Gate::step;
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
    while (!gate.inside()) advance(session, 5000.0);

    std::atomic<bool> called{false};
    int32_t patient = HK_OK;
    std::string why;
    std::thread other([&] {
        const Error of_other;
        called = true;
        patient = hk_session_release_memory(session, 120 * kSecond, of_other);
        why = of_other.message();
    });
    while (!called) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // so that the other call is usually waiting already
    for (const uint64_t time : {uint64_t{0}, kSecond / 100}) {
        CHECK(hk_session_release_memory(session, time, error) == HK_CANCELLED);
        CHECK_MESSAGE(error.says("call it again"), error.message());
    }
    gate.open();
    other.join();
    CHECK_MESSAGE(patient == HK_OK, why);
    CHECK(state_of(session).state == HK_SESSION_RELEASED);
    hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("threads release and restore one session's memory concurrently, and its results stay bitwise equal") {
    FaultDriver& driver = FaultDriver::get();
    driver.reset();
    const Place place;
    Host host;
    const Error error;
    const std::vector<std::string> steps{"train.max_steps=3", "train.eval_steps=0"};
    for (const bool no_threads : {false, true}) {
        hk_context context{};
        REQUIRE(host.context(context, error, [&](hk_context_options& o) { o.no_threads = no_threads ? 1 : 0; }) ==
                HK_OK);
        train(context, Training(place, "whole", steps));
        const Training training(place, "shared", steps);
        hk_session session{};
        REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
        while (state_of(session).state == HK_SESSION_PREPARING)
            if (no_threads)
                REQUIRE(hk_context_pump(context, 1'000'000, nullptr, error) == HK_OK);
            else
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::atomic<bool> ends{false};
        std::atomic<int> released{0};
        std::array<std::thread, 3> threads;
        for (std::size_t i = 0; i < threads.size(); ++i)
            threads[i] = std::thread([&, i] {
                const Error of_thread;
                const uint64_t time = i == 0 ? 0 : i == 1 ? 200'000 : 60 * kSecond;
                while (!ends) {
                    const int32_t code = hk_session_release_memory(session, time, of_thread);
                    const bool allowed = code == HK_OK || code == HK_CANCELLED || code == HK_FAILED_PRECONDITION;
                    CHECK_MESSAGE(allowed, of_thread.message());
                    if (code == HK_FAILED_PRECONDITION) return; // the training has ended
                    released += code == HK_OK ? 1 : 0;
                    const int32_t restored = hk_session_restore_memory(session, of_thread);
                    CHECK_MESSAGE(restored == HK_OK, of_thread.message());
                    std::this_thread::sleep_for(std::chrono::milliseconds(2));
                }
            });
        for (hk_session_info info = state_of(session); info.state != HK_SESSION_DONE; info = state_of(session)) {
            REQUIRE_MESSAGE(info.state != HK_SESSION_FAILED, message_of(info));
            if (no_threads) REQUIRE(hk_context_pump(context, 100'000, nullptr, error) == HK_OK);
            if (advance(session, 2000.0).pieces == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        ends = true;
        for (std::thread& thread : threads) thread.join();
        CHECK(released > 0);
        hk_session_destroy(session);
        hk_context_destroy(context);
        CHECK(place.read("shared/model.safetensors") == place.read("whole/model.safetensors"));
        std::filesystem::remove_all(place.folder / "whole");
        std::filesystem::remove_all(place.folder / "shared");
    }
    CHECK(driver.leaks().empty());
}

} // namespace memory_requests_test
