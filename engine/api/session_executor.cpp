#include "api/session_executor.hpp"

#include "base/thread.hpp"

#include <new>

namespace hekla::api {
namespace {

constexpr std::chrono::microseconds kBetweenStretches(100); // of wait_for(), while the device works

} // namespace

SessionExecutor::~SessionExecutor() {
    if (thread_.joinable()) thread_.detach(); // the thread held the last reference to the session, and is about to end
}

void SessionExecutor::start(std::shared_ptr<void> owner, std::function<void()> body) {
    if (!own_thread_) {
        const std::lock_guard guard(body_mutex_);
        body_ = std::move(body);
        return;
    }
    thread_ = start_thread("hekla session", [this, owner = std::move(owner), body = std::move(body)] {
        thread_id_ = std::this_thread::get_id();
        body();
        thread_id_ = std::thread::id();
    });
}

std::function<void()> SessionExecutor::take() {
    const std::lock_guard guard(body_mutex_);
    return std::exchange(body_, {});
}

bool SessionExecutor::run() {
    const std::function<void()> body = take();
    if (!body) return false;
    thread_id_ = std::this_thread::get_id();
    body();
    thread_id_ = std::thread::id();
    return true;
}

Result<ResumeResult> SessionExecutor::resume(const std::function<void()>& first) {
    const std::lock_guard one_at_a_time(running_);
    if (fiber_ == nullptr) {
        std::function<void()> body = take();
        if (!body) return ResumeResult::ended;
        in_stretches_ = true;
        first();
        try {
            HK_ASSIGN(fiber_, Fiber::create(std::move(body)));
        } catch (const std::bad_alloc&) { return Status(Code::out_of_memory, "out of memory"); }
    }
    thread_id_ = std::this_thread::get_id();
    fiber_->resume();
    thread_id_ = std::thread::id();
    if (fiber_->ended()) {
        fiber_.reset();
        return ResumeResult::ended;
    }
    return paused_ == Pause::for_host ? ResumeResult::waits_for_host : ResumeResult::waits_for_device;
}

bool SessionExecutor::drop() { return take() != nullptr; }

bool SessionExecutor::join() {
    if (!thread_.joinable() || thread_.get_id() == std::this_thread::get_id()) return false;
    thread_.join();
    return true;
}

bool SessionExecutor::pause(Pause reason) {
    if (!in_stretches_ || !on_own_thread()) return false;
    paused_ = reason;
    fiber_->pause();
    return true;
}

void SessionExecutor::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& holds) {
    while (!holds()) {
        if (!in_stretches_) return changed_.wait(lock, holds);
        lock.unlock();
        pause(Pause::for_host);
        lock.lock();
    }
}

bool SessionExecutor::wait_for(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until,
                               const std::function<bool()>& holds) {
    while (!holds()) {
        if (!in_stretches_) return changed_.wait_until(lock, until, holds);
        if (std::chrono::steady_clock::now() >= until) return false;
        lock.unlock();
        resume_();
        std::this_thread::sleep_for(kBetweenStretches);
        lock.lock();
    }
    return true;
}

} // namespace hekla::api
