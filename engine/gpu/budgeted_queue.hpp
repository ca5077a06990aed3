// A queue with a time budget. One thread submits work and waits for it as with any other queue; another thread calls
// advance(), for example once a frame, and each call runs up to N microseconds of that work on the device. The work and
// its order do not depend on the budgets, so the results have the same bits.
//
// Actions of the submitting thread while it waits for its job (wait_value); the first match applies:
//
//     the job has ended                                                          return
//     nothing runs, and the queue was cancelled or has failed                    return the error
//     suspension is wanted, all that is left is rerecordable, nothing runs       suspend: call the callback
//     metering is off, or suspension is wanted and something is not rerecordable submit all that is left
//     nothing that runs ends the job: advance() has to submit more               wait for the host (pause, or sleep)
//     the submission that ends the job is leased                                 wait for the host's semaphore
//     otherwise                                                                  wait for the device
#pragma once

#include "base/resource_allocator.hpp"
#include "gpu/submit.hpp"
#include "gpu/timer.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <optional>

namespace hekla::gpu {

class BudgetedQueue final : public Queue {
public:
    enum class Mode : int32_t {
        direct,    // submit() submits to the device, as Queue does
        measuring, // like direct, but each segment is submitted, waited for and timed alone
        metered,   // submit() queues, advance() submits to the device
    };

    static Result<std::shared_ptr<BudgetedQueue>> create(std::shared_ptr<Device> device);
    ~BudgetedQueue() override; // waits for pending work, including leases

    // Sets the mode, on the submitting thread; waits for everything first.
    Status set_mode(Mode mode);

    Result<uint64_t> submit(std::span<const Segment> segments, const SubmitOptions& options = {}) override;
    Status wait_all() override;
    void give_way() override;

    double longest(); // seconds of the longest segment measured so far
    void forget();    // resets the measurements, before other segments replace the measured ones

    struct Work {
        double seconds = 0;                     // budget; at least one segment is submitted if there is any
        std::span<const TimelinePoint> waits;   // before the work
        std::span<const TimelinePoint> signals; // after the work, even if there is none
        // A command buffer of the host, outside of a render pass, into which the work is recorded instead of being
        // submitted. Then there are no waits and signals, but `lease`, which the host signals when the command buffer
        // was executed.
        VkCommandBuffer into = VK_NULL_HANDLE;
        TimelinePoint lease;
    };
    struct Advanced {
        std::size_t segments = 0; // submitted or recorded by this call
        double seconds = 0;       // expected duration of these
        bool more = false;        // whether there is work that did not fit
        bool busy = false;        // nothing was submitted, because earlier submissions still run
        double spent = 0;         // seconds of the newest finished submission; 0: none yet, or no timestamps
        double longest = 0;       // seconds of the longest segment ever measured
    };
    // Submits or records work within a budget. Thread: any, one at a time. Does not wait, compile or allocate. Errors:
    // a lost device; a lease that is not in the future (nothing is recorded).
    Result<Advanced> advance(const Work& work);

    // Asks the submitting thread to call `suspended`, without holding a lock, when it waits for advance(), nothing of
    // this queue runs, and everything left is rerecordable. advance() submits nothing until then and during the call;
    // work that `suspended` itself submits is executed immediately. Empty: withdraws the request. Thread: any.
    void set_suspended(std::function<Status()> suspended);
    // Calls `suspended` now, on the submitting thread; nothing may be pending.
    Status suspend(const std::function<Status()>& suspended);

    // Sets a function that the submitting thread calls, without holding a lock, instead of sleeping: repeatedly until
    // advance() was called (true) or the device has finished (false, at least every millisecond). If it returns false,
    // the thread sleeps. Must be called before anything is submitted.
    void set_pause(std::function<bool(bool for_advance)> pause) { pause_ = std::move(pause); }

    // Drops work that was not yet submitted to the device; submit() and wait() return Code::cancelled as soon as
    // submitted work is done. Permanent. Thread: any.
    void cancel();
    // Submits the remaining and all future work to the device immediately, without advance(). Thread: any.
    void drain();

private:
    // Segments that were submitted together.
    struct Job {
        ResourceVector<Segment> segments;
        std::size_t next = 0; // the first one that was not submitted yet
        uint64_t number = 0;
        std::vector<TimelinePoint> waits, signals;
    };
    // The work of one advance() on the device.
    struct Submission {
        CommandBuffer primary;
        std::unique_ptr<Timer> timer; // null without timestamps
        TimelinePoint end;            // on this queue's timeline, or the host's lease
        bool leased = false;
        uint64_t ended_job = 0; // the last job that it ends; 0: none
        ResourceVector<Segment> segments;
    };
    // See the table above.
    enum class Step : int32_t { done, fail, suspend, submit, wait_for_host, wait_for_lease, wait_for_device };
    struct Next {
        Step step = Step::done;
        TimelinePoint end; // to wait for
    };
    BudgetedQueue() = default;
    Result<bool> wait_value(uint64_t value, uint64_t timeout_nanoseconds) override;
    // The next five are called with work_mutex_ held; those with a lock parameter release it while they wait.
    Next next_step(uint64_t job) const;
    Status submit_all();
    Status suspend_waiting(std::unique_lock<std::mutex>& lock);
    bool pause_for_host(std::unique_lock<std::mutex>& lock);
    void wait_for_host(std::unique_lock<std::mutex>& lock, uint64_t nanoseconds);
    Status wait_for_lease(const TimelinePoint& lease, uint64_t nanoseconds);
    Result<bool> wait_for_device(uint64_t value, uint64_t timeout_nanoseconds); // a value of the timeline
    Result<uint64_t> measure(std::span<const Segment> segments, const SubmitOptions& options);
    double cost(const Segment& segment) const; // seconds
    Result<std::unique_ptr<Submission>> make_submission() const;
    Status collect(); // reads the times of complete submissions and makes them idle
    Result<Advanced> submit_within(const Work& work);
    Result<bool> is_complete(const Submission& submission);
    Status record(Submission& submission, CommandBuffer& into, const Work& work, Advanced& advanced,
                  std::vector<TimelinePoint>& waits, std::vector<TimelinePoint>& signals);

    std::mutex work_mutex_;
    std::condition_variable advanced_; // or cancelled, drained, asked to suspend
    std::atomic<Mode> mode_{Mode::direct};
    std::function<bool(bool)> pause_;
    bool cancelled_ = false;
    std::function<Status()> suspended_; // the requested callback; empty: none
    bool is_suspended_ = false;
    Status failed_;
    std::deque<Job> jobs_;
    uint64_t made_ = 0, ended_ = 0;                       // job numbers
    std::deque<std::unique_ptr<Submission>> submissions_; // on the device, in order
    std::vector<std::unique_ptr<Submission>> idle_;
    std::unique_ptr<Submission> measuring_; // only for measure()
    double measured_ = 0, estimated_ = 0;   // seconds of all segments that were measured
    double spent_ = 0, longest_ = 0;        // seconds
};

} // namespace hekla::gpu
