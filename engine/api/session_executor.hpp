// Runs the code of a session on its own thread, or on threads of the host, either all at once (hk_session_run) or in
// stretches (hk_context_pump, jobs, and calls that wait for the session).
#pragma once

#include "base/fiber.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace hekla::api {

// What a session needs next, after a stretch of its code has returned.
enum class ResumeResult : int32_t {
    ended, // nothing: it has ended, or another thread runs all of it
    waits_for_host,
    waits_for_device,
};

// An executor of one body. Its condition variable is used with the mutex passed to wait() and wait_for().
class SessionExecutor {
public:
    enum class Pause : int32_t { for_host, for_device };

    explicit SessionExecutor(bool own_thread) : own_thread_(own_thread) {}
    ~SessionExecutor(); // requires that the body has ended, or was never started
    SessionExecutor(const SessionExecutor&) = delete;
    SessionExecutor& operator=(const SessionExecutor&) = delete;

    // Starts a thread that runs `body` and keeps `owner` alive meanwhile, or stores the body for run() or resume().
    void start(std::shared_ptr<void> owner, std::function<void()> body);
    // Runs the whole body on this thread. Returns false if it was already started or dropped.
    bool run();
    // Runs the body on this thread until it pauses or ends. Thread: any, one at a time. `first` is called before the
    // first stretch. out_of_memory: its stack cannot be allocated; the body is dropped.
    Result<ResumeResult> resume(const std::function<void()>& first);
    // Drops a body that was not started. Returns false if there is none.
    bool drop();
    // Waits for the thread to end. Returns false if there is none, or if this is the thread itself.
    bool join();

    // Returns whether the host runs the body in stretches, so that resume() must be called.
    bool in_stretches() const { return in_stretches_; }
    // Returns whether this is the thread that is running the body.
    bool on_own_thread() const { return thread_id_ == std::this_thread::get_id(); }

    // For the body: returns to the caller of resume(). Returns false immediately if it does not run in stretches.
    bool pause(Pause reason);
    // For the body: waits until the host has made `holds` true, with `lock` released.
    void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& holds);
    // For the host: waits until the body has made `holds` true, and runs the body if the host is responsible for it.
    // Returns false on timeout.
    bool wait_for(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until,
                  const std::function<bool()>& holds);
    // Wakes wait() and wait_for().
    void notify() { changed_.notify_all(); }
    std::condition_variable& changed() { return changed_; }

    // Called by wait_for() for each stretch.
    void set_resume(std::function<void()> resume) { resume_ = std::move(resume); }

private:
    std::function<void()> take();

    const bool own_thread_;
    std::function<void()> resume_;
    std::thread thread_;
    std::mutex body_mutex_;
    std::function<void()> body_; // not yet started
    std::mutex running_;         // held by the thread that runs a stretch
    std::unique_ptr<Fiber> fiber_;
    Pause paused_ = Pause::for_device; // why the last stretch returned
    std::atomic<bool> in_stretches_{false};
    std::atomic<std::thread::id> thread_id_{};
    std::condition_variable changed_;
};

} // namespace hekla::api
