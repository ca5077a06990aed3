// A queue whose work is given to the device a piece at a time, by whoever has time to spare. One thread submits and
// waits as with any other queue, and blocks until its work is done; another calls advance(), once a frame, say, and
// each call gives the device as much as its budget holds. The work is the same, in the same order, so the bits are too.
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
        direct,    // submit() submits, as Queue does
        measuring, // the same, one segment after the other, each waited for and timed
        metered,   // submit() hands over, advance() submits
    };

    static Result<std::shared_ptr<BudgetedQueue>> create(std::shared_ptr<Device> device);
    ~BudgetedQueue() override; // waits for what is pending, leases included

    // By the thread that submits; waits for everything first.
    Status set_mode(Mode mode);

    Result<uint64_t> submit(std::span<const Segment> segments, const SubmitOptions& options = {}) override;
    Status wait_all() override;
    void give_way() override;

    double longest(); // seconds of the longest segment measured so far
    void forget();    // what was measured: other segments take the place of those

    struct Work {
        double seconds = 0;                     // the budget: at least one segment is taken where any is there
        std::span<const TimelinePoint> waits;   // before it
        std::span<const TimelinePoint> signals; // behind it, even where there is nothing to do
        // Recorded into this command buffer of the host's, outside of a render pass, instead of submitted: then no
        // waits and signals, but `lease`, which the host signals when the command buffer has been executed.
        VkCommandBuffer into = VK_NULL_HANDLE;
        TimelinePoint lease;
    };
    struct Advanced {
        std::size_t segments = 0; // given to the device now
        double seconds = 0;       // what they should take
        bool more = false;        // there is work that did not fit
        bool busy = false;        // nothing was given: pieces of earlier calls still run
        double spent = 0;   // what the newest finished piece took, by the device's clock; 0: none, or no timestamps
        double longest = 0; // the longest segment ever measured
    };
    // Thread: any, one at a time. Waits for nothing, compiles and allocates nothing. Errors: a lost device; a lease
    // that is not in the future (nothing is recorded).
    Result<Advanced> advance(const Work& work);

    // Where the submitting thread waits for advance(), it calls `parked`, under no lock, once nothing of this queue
    // runs and everything that is left can be recorded again (Segment::again); until that has returned, advance() gives
    // the device nothing. What `parked` itself submits is submitted at once. Empty: no more. Thread: any.
    void set_parked(std::function<Status()> parked);
    // The same by the submitting thread, now: nothing of it may be pending.
    Status park(const std::function<Status()>& parked);

    // What the submitting thread does, under no lock, instead of waiting, again and again until it need not: for
    // advance(), or (false) for the device, after a millisecond at most. Where it gives false back it waits all the
    // same. Before anything is submitted.
    void set_pause(std::function<bool(bool for_advance)> pause) { pause_ = std::move(pause); }

    // What was not yet given to the device is dropped; submit() and wait() end with Code::cancelled as soon as what was
    // given is done. For good. Thread: any.
    void cancel();
    // What is left and what comes is given to the device at once, without advance(). Thread: any.
    void drain();

private:
    // Segments that were submitted together.
    struct Job {
        ResourceVector<Segment> segments;
        std::size_t next = 0; // the first one that was not given yet
        uint64_t number = 0;
        std::vector<TimelinePoint> waits, signals;
    };
    // One piece on the device.
    struct Submission {
        CommandBuffer primary;
        std::unique_ptr<Timer> timer; // null without timestamps
        TimelinePoint end;            // ours, or the host's lease
        bool leased = false;
        uint64_t ended_job = 0; // the last one that it ends; 0: none
        ResourceVector<Segment> segments;
    };
    BudgetedQueue() = default;
    Result<bool> wait_value(uint64_t value, uint64_t timeout_nanoseconds) override;
    Result<bool> wait_device(uint64_t value, uint64_t timeout_nanoseconds); // a value of the timeline
    Result<uint64_t> measure(std::span<const Segment> segments, const SubmitOptions& options);
    double cost(const Segment& segment) const;
    Result<std::unique_ptr<Submission>> make_submission() const;
    Status collect(); // submissions that have is_complete
    Result<Advanced> give(const Work& work);
    Result<bool> is_complete(const Submission& submission);
    Status record(Submission& submission, CommandBuffer& into, const Work& work, Advanced& advanced,
                  std::vector<TimelinePoint>& waits, std::vector<TimelinePoint>& signals);

    std::mutex work_mutex_;
    std::condition_variable given_; // or cancelled
    std::atomic<Mode> mode_{Mode::direct};
    std::function<bool(bool)> pause_;
    bool cancelled_ = false;
    std::function<Status()> parked_; // wanted
    bool is_parked_ = false;
    Status failed_;
    std::deque<Job> jobs_;
    uint64_t made_ = 0, ended_ = 0;                       // job numbers
    std::deque<std::unique_ptr<Submission>> submissions_; // in the order they were given
    std::vector<std::unique_ptr<Submission>> idle_;
    std::unique_ptr<Submission> measuring_; // of measure() alone
    double measured_ = 0, estimated_ = 0;   // sums over what was measured
    double spent_ = 0, longest_ = 0;
};

} // namespace hekla::gpu
