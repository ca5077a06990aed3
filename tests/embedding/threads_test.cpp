// Threads: Hekla's own have names; a context without threads does all its work on the host's.
#include "work.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>

namespace threads_test {

using namespace hekla::test;

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

hk_pumped pump(hk_context context, uint64_t nanoseconds = 0) {
    hk_pumped pumped{};
    pumped.struct_size = sizeof pumped;
    const Error error;
    const int32_t code = hk_context_pump(context, nanoseconds, &pumped, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return pumped;
}

// Pumps on this thread until the session is in this state. Returns the number of calls that submitted work.
int64_t pump_until(hk_context context, hk_session session, int32_t state, double microseconds = 2000.0) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    int64_t frames = 0;
    for (hk_session_info info = state_of(session); info.state != state; info = state_of(session)) {
        REQUIRE_MESSAGE(info.state != HK_SESSION_FAILED, message_of(info));
        REQUIRE(std::chrono::steady_clock::now() < end);
        pump(context, 1'000'000);
        frames += advance(session, microseconds).pieces > 0 ? 1 : 0;
    }
    return frames;
}

// A host that runs jobs on two of its own threads.
class Jobs {
public:
    Jobs() {
        for (std::thread& thread : threads_) thread = std::thread([this] { work(); });
    }
    ~Jobs() { finish(); }
    void finish() {
        {
            const std::lock_guard guard(mutex_);
            over_ = true;
        }
        given_.notify_all();
        for (std::thread& thread : threads_)
            if (thread.joinable()) thread.join();
    }
    static void give(void* user, void (*run)(void*), void* data) {
        auto& jobs = *static_cast<Jobs*>(user);
        {
            const std::lock_guard guard(jobs.mutex_);
            jobs.queue_.emplace_back(run, data);
        }
        jobs.given_.notify_one();
    }
    bool is_here() const {
        return std::ranges::any_of(
            threads_, [](const std::thread& thread) { return thread.get_id() == std::this_thread::get_id(); });
    }

private:
    void work() {
        std::unique_lock lock(mutex_);
        for (;;) {
            given_.wait(lock, [&] { return over_ || !queue_.empty(); });
            if (queue_.empty()) return;
            const auto [run, data] = queue_.front();
            queue_.pop_front();
            lock.unlock();
            run(data);
            lock.lock();
        }
    }
    std::mutex mutex_;
    std::condition_variable given_;
    std::deque<std::pair<void (*)(void*), void*>> queue_;
    bool over_ = false;
    std::array<std::thread, 2> threads_;
};

// A driver's threads inherit the name of the thread that created them, so only differences count.
std::ptrdiff_t ours() {
    return std::ranges::count_if(thread_names(), [](const std::string& name) { return name.starts_with("hekla "); });
}

} // namespace

TEST_CASE("sessions and batches have named threads, which end with them") {
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

TEST_CASE("a context without threads: the host runs its sessions, with the same bits") {
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
    CHECK(state_of(session, 1000).state == HK_SESSION_PREPARING); // not run yet
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

    // A session that was never run is destroyed at once; destroying one that runs elsewhere waits for it.
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
    const int32_t released = hk_device_release(context, 10 * kSecond, error); // with a session that was never run
    CHECK_MESSAGE(released == HK_OK, error.message());
    hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("pumped on one thread: a training and a generation concurrently, with the same bits") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    CHECK(hk_context_pump(context, 0, nullptr, error) == HK_FAILED_PRECONDITION);
    CHECK_MESSAGE(error.says("no_threads"), error.message());
    train(context, Training(place, "whole"));
    const std::string weights = place.read("whole/model.safetensors");
    Writing alone(place.at("whole"));
    hk_session session{}, second{};
    REQUIRE(hk_session_generate(context, &alone.options, nullptr, &session, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 2000.0);
    hk_session_destroy(session);
    const std::string text = alone.taken();
    CHECK(!text.empty());
    hk_context_destroy(context);

    REQUIRE(host.context(context, error, [](hk_context_options& o) { o.no_threads = 1; }) == HK_OK);
    CHECK(pump(context).sessions == 0);
    const std::ptrdiff_t before = ours();
    // The step callbacks are called on this thread; inside of them pumping is rejected.
    struct Heard {
        hk_context context;
        std::thread::id thread = std::this_thread::get_id();
        int64_t elsewhere = 0, refused = 0, steps = 0;
    } heard{context};
    Training training(place, "pumped");
    training.options.user = &heard;
    training.options.step = [](void* user, const hk_train_step* step) {
        auto& to = *static_cast<Heard*>(user);
        to.steps = step->step;
        if (std::this_thread::get_id() != to.thread) ++to.elsewhere;
        if (hk_context_pump(to.context, 0, nullptr, nullptr) == HK_FAILED_PRECONDITION) ++to.refused;
    };
    Writing writing(place.at("whole"));
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &second, error) == HK_OK);
    CHECK(state_of(session).state == HK_SESSION_PREPARING); // not run yet
    hk_pumped pumped = pump(context);
    CHECK(pumped.sessions == 2);
    CHECK(hk_session_run(session, error) == HK_FAILED_PRECONDITION); // it was started by the pump
    CHECK(pump_until(context, second, HK_SESSION_IDLE) > 1);
    CHECK(writing.taken() == text);
    pump_until(context, session, HK_SESSION_WORKING);
    while (heard.steps < 2) {
        pump(context, 1'000'000);
        advance(session, 2000.0);
    }
    // Releasing and restoring on one thread: the waiting call runs the session.
    REQUIRE_MESSAGE(hk_session_release_memory(session, 60 * kSecond, error) == HK_OK, error.message());
    CHECK(state_of(session).state == HK_SESSION_RELEASED);
    pumped = pump(context, 1'000'000);
    CHECK(pumped.waiting == 2);
    REQUIRE_MESSAGE(hk_session_restore_memory(session, error) == HK_OK, error.message());
    const hk_string again = view(writing.first);
    REQUIRE(hk_session_prompt(second, &again, 1, error) == HK_OK);
    pump_until(context, second, HK_SESSION_IDLE);
    CHECK(writing.taken() == text);
    CHECK(pump_until(context, session, HK_SESSION_DONE) > 1);
    CHECK(heard.elsewhere == 0);
    CHECK(heard.refused == 6);
    CHECK(ours() == before);
    hk_session_destroy(session);
    CHECK(place.read("pumped/model.safetensors") == weights);
    CHECK(pump(context).sessions == 1);
    hk_session_destroy(second); // while it waits for a prompt
    CHECK(pump(context).sessions == 0);

    // In the middle of a step: destroyed, stopped, and with its device released.
    const Training another(place, "another");
    REQUIRE(hk_session_train(context, &another.options, nullptr, &session, error) == HK_OK);
    pump_until(context, session, HK_SESSION_WORKING);
    advance(session, 300.0);
    hk_session_destroy(session);
    REQUIRE(hk_session_train(context, &another.options, nullptr, &session, error) == HK_OK);
    pump_until(context, session, HK_SESSION_WORKING);
    REQUIRE(hk_session_stop(session, error) == HK_OK);
    pump_until(context, session, HK_SESSION_DONE);
    CHECK(state_of(session).stopped == 1);
    hk_session_destroy(session);
    REQUIRE(hk_session_train(context, &another.options, nullptr, &session, error) == HK_OK);
    pump_until(context, session, HK_SESSION_WORKING);
    const int32_t released = hk_device_release(context, 60 * kSecond, error);
    CHECK_MESSAGE(released == HK_OK, error.message());
    CHECK(state_of(session).state == HK_SESSION_DONE);
    hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a callback that destroys its own session ends it, in a context without threads") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context, error, [](hk_context_options& o) { o.no_threads = 1; }) == HK_OK);
    Training training(place, "gone");
    hk_session session{};
    training.options.user = &session;
    training.options.step = [](void* user, const hk_train_step*) {
        hk_session_destroy(std::exchange(*static_cast<hk_session*>(user), hk_session{0}));
    };
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (session.id != 0) {
        REQUIRE(std::chrono::steady_clock::now() < end);
        pump(context, 1'000'000);
        if (session.id != 0) advance(session, 1e5);
    }
    CHECK(pump(context).sessions == 0);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("sessions as jobs of the host: no threads of Hekla, the same bits, and jobs that are never run") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "whole"));
    const std::string weights = place.read("whole/model.safetensors");
    hk_context_destroy(context);

    Jobs jobs;
    REQUIRE(host.context(context, error, [&](hk_context_options& o) {
        o.job = &Jobs::give;
        o.user = &jobs;
        o.log = nullptr;
    }) == HK_OK);
    CHECK(hk_context_pump(context, 0, nullptr, error) == HK_FAILED_PRECONDITION);
    CHECK_MESSAGE(error.says("jobs"), error.message());
    const std::ptrdiff_t before = ours();
    struct Heard {
        const Jobs* jobs;
        std::atomic<int64_t> here{0}, elsewhere{0};
    } heard{&jobs};
    Training training(place, "jobs");
    training.options.user = &heard;
    training.options.step = [](void* user, const hk_train_step*) {
        auto& to = *static_cast<Heard*>(user);
        ++(to.jobs->is_here() ? to.here : to.elsewhere);
    };
    hk_session session{}, second{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    CHECK(hk_session_run(session, error) == HK_FAILED_PRECONDITION);
    CHECK_MESSAGE(error.says("jobs"), error.message());
    Writing writing(place.at("whole"));
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &second, error) == HK_OK);
    CHECK(run_until(second, HK_SESSION_IDLE, 2000.0) > 1);
    const std::string text = writing.taken();
    const hk_string again = view(writing.first);
    REQUIRE(hk_session_prompt(second, &again, 1, error) == HK_OK);
    run_until(second, HK_SESSION_IDLE, 2000.0);
    CHECK(writing.taken() == text);
    CHECK(run_until(session, HK_SESSION_DONE, 2000.0) > 1);
    CHECK(heard.here == 6);
    CHECK(heard.elsewhere == 0);
    CHECK(ours() == before);
    hk_session_destroy(session);
    CHECK(place.read("jobs/model.safetensors") == weights);

    // Destroyed in the middle, with the other session waiting; then with a host whose threads have ended.
    const Training another(place, "another");
    REQUIRE(hk_session_train(context, &another.options, nullptr, &session, error) == HK_OK);
    REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
    advance(session, 300.0);
    REQUIRE_MESSAGE(hk_session_release_memory(session, 60 * kSecond, error) == HK_OK, error.message());
    REQUIRE_MESSAGE(hk_session_restore_memory(session, error) == HK_OK, error.message());
    hk_session_destroy(session);
    jobs.finish();
    REQUIRE(hk_session_train(context, &another.options, nullptr, &session, error) == HK_OK);
    CHECK(state_of(session, 1000).state == HK_SESSION_PREPARING);
    const int32_t released = hk_device_release(context, 60 * kSecond, error);
    CHECK_MESSAGE(released == HK_OK, error.message());
    hk_session_destroy(second);
    hk_session_destroy(session);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a host that reloads its own code replaces its callbacks while a session runs") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    struct Heard {
        std::atomic<int64_t> steps{0}, logged{0}, stored{0}, allocated{0}, released{0};
        static void step(void* user, const hk_train_step*) { ++static_cast<Heard*>(user)->steps; }
        static void log(void* user, int32_t, hk_string) { ++static_cast<Heard*>(user)->logged; }
        static void load(void*, hk_string, void*, void (*)(void*, const void*, uint64_t)) {}
        static void store(void* user, hk_string, const void*, uint64_t) { ++static_cast<Heard*>(user)->stored; }
        static void* allocate(void* user, uint64_t bytes, uint64_t alignment) {
            ++static_cast<Heard*>(user)->allocated;
            return ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
        }
        static void release(void* user, void* memory, uint64_t, uint64_t alignment) {
            ++static_cast<Heard*>(user)->released;
            ::operator delete(memory, std::align_val_t(alignment));
        }
        int64_t all() const { return steps + logged + stored + allocated + released; }
        hk_cache cache() { return {sizeof(hk_cache), 0, this, load, store}; }
        hk_allocator allocator() { return {sizeof(hk_allocator), 0, this, allocate, release}; }
    } before, after;
    const hk_cache first_cache = before.cache(), next_cache = after.cache();
    const hk_allocator first_allocator = before.allocator(), next_allocator = after.allocator();
    hk_context context{};
    REQUIRE(host.context(context, error, [&](hk_context_options& o) {
        o.user = &before;
        o.log = Heard::log;
        o.cache = &first_cache;
        o.allocator = &first_allocator;
    }) == HK_OK);
    Training training(place, "run");
    training.options.user = &before;
    training.options.step = Heard::step;
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
    while (before.steps < 2) advance(session, 2000.0);

    hk_session_callbacks of_session{};
    of_session.struct_size = sizeof of_session;
    of_session.user = &after;
    of_session.step = Heard::step;
    REQUIRE(hk_session_replace_callbacks(session, &of_session, error) == HK_OK);
    hk_context_callbacks of_context{};
    of_context.struct_size = sizeof of_context;
    of_context.user = &after;
    of_context.log = Heard::log;
    of_context.allocator = &next_allocator;
    of_context.queue_user = host.wrapped.user;
    of_context.lock_queue = host.wrapped.lock_queue;
    of_context.unlock_queue = host.wrapped.unlock_queue;
    CHECK(hk_context_replace_callbacks(context, &of_context, error) == HK_INVALID_ARGUMENT);
    CHECK_MESSAGE(error.says("cache is null"), error.message());
    of_context.cache = &next_cache;
    REQUIRE_MESSAGE(hk_context_replace_callbacks(context, &of_context, error) == HK_OK, error.message());
    const int64_t heard = before.all();
    run_until(session, HK_SESSION_DONE, 2000.0);
    hk_session_destroy(session);
    Writing writing(place.at("run"));
    REQUIRE(hk_generate(context, &writing.options, nullptr, error) == HK_OK);
    hk_context_destroy(context);
    CHECK(before.all() == heard);
    CHECK(before.steps + after.steps == 6);
    CHECK(after.stored > 0);
    CHECK(before.allocated + after.allocated == before.released + after.released);
    CHECK(after.released > after.allocated); // includes memory allocated through the old one

    // Replacing them inside a callback is rejected.
    REQUIRE(host.context(context) == HK_OK);
    struct Inside {
        hk_context context;
        const Host* host;
        int32_t code = HK_OK;
    } inside{context, &host};
    Training call(place, "call");
    call.options.user = &inside;
    call.options.step = [](void* user, const hk_train_step*) {
        auto& to = *static_cast<Inside*>(user);
        hk_context_callbacks same{};
        same.struct_size = sizeof same;
        same.queue_user = to.host->wrapped.user;
        same.lock_queue = to.host->wrapped.lock_queue;
        same.unlock_queue = to.host->wrapped.unlock_queue;
        to.code = hk_context_replace_callbacks(to.context, &same, nullptr);
    };
    train(context, call);
    CHECK(inside.code == HK_FAILED_PRECONDITION);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

} // namespace threads_test
