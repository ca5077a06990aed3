#include "gpu/budgeted_queue.hpp"

#include "base/within_memory.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::gpu {

namespace {

constexpr uint64_t kTicket = uint64_t{1} << 63;     // distinguishes job numbers from values of the timeline
constexpr std::size_t kSubmissions = 3;             // on the device at a time
constexpr uint32_t kMaxSegments = 1023;             // of one submission
constexpr double kLeastSeconds = 2e-6;              // of a segment without an estimate
constexpr double kUnmeasuredFactor = 1.5;           // how much longer than estimated an unmeasured segment may take
constexpr uint64_t kPauseNanoseconds = 1'000'000;   // longest wait for the device between two pauses
constexpr uint64_t kSleepNanoseconds = 100'000'000; // longest sleep before the state is checked again

// The remaining part of a timeout.
class Remaining {
public:
    explicit Remaining(uint64_t nanoseconds) : whole_(nanoseconds) {}
    uint64_t operator()() const {
        if (whole_ == UINT64_MAX) return UINT64_MAX;
        const auto gone = static_cast<uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin_).count());
        return gone < whole_ ? whole_ - gone : 0;
    }

private:
    uint64_t whole_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace

Result<std::shared_ptr<BudgetedQueue>> BudgetedQueue::create(std::shared_ptr<Device> device) {
    auto queue = std::shared_ptr<BudgetedQueue>(new BudgetedQueue);
    HK_TRY(queue->open(std::move(device)));
    HK_ASSIGN(queue->measuring_, queue->make_submission());
    for (std::size_t i = 0; i < kSubmissions; ++i) {
        HK_ASSIGN(auto submission, queue->make_submission());
        queue->idle_.push_back(std::move(submission));
    }
    return queue;
}

Result<std::unique_ptr<BudgetedQueue::Submission>> BudgetedQueue::make_submission() const {
    auto submission = std::make_unique<Submission>();
    HK_ASSIGN(submission->primary, pool()->allocate(Level::primary));
    if (device()->capabilities().timestamps) {
        HK_ASSIGN(submission->timer, Timer::create(device(), kMaxSegments + 1));
    }
    submission->segments = ResourceVector<Segment>(device()->host_memory());
    submission->segments.reserve(kMaxSegments);
    return submission;
}

BudgetedQueue::~BudgetedQueue() {
    cancel();
    settle_after(BudgetedQueue::wait_all()); // cancelled: no caller is left to report to
}

Status BudgetedQueue::set_mode(Mode mode) {
    HK_TRY(wait_all());
    mode_ = mode;
    return {};
}

double BudgetedQueue::longest() {
    const std::lock_guard guard(work_mutex_);
    return longest_;
}

void BudgetedQueue::forget() {
    const std::lock_guard guard(work_mutex_);
    longest_ = measured_ = estimated_ = 0;
}

Result<uint64_t> BudgetedQueue::submit(std::span<const Segment> segments, const SubmitOptions& options) {
    Job job;
    // A Status, not an exception, because the caller waits for the parts that it has already submitted.
    HK_TRY(within_memory("for work to submit", [&]() -> Status {
        job.segments = ResourceVector<Segment>(segments.begin(), segments.end(), device()->host_memory());
        job.waits.assign(options.waits.begin(), options.waits.end());
        job.signals.assign(options.signals.begin(), options.signals.end());
        return {};
    }));
    {
        const std::lock_guard guard(work_mutex_);
        if (cancelled_) return Status(Code::cancelled, "the work on the device was cancelled");
        HK_TRY(failed_);
        if (!is_suspended_ && (mode_ == Mode::metered || !jobs_.empty())) {
            HK_TRY(check(segments));
            job.number = made_ + 1;
            jobs_.push_back(std::move(job));
            return kTicket | ++made_;
        }
    }
    return mode_ == Mode::measuring ? measure(segments, options) : Queue::submit(segments, options);
}

Result<uint64_t> BudgetedQueue::measure(std::span<const Segment> segments, const SubmitOptions& options) {
    HK_TRY(check(segments));
    Submission& submission = *measuring_;
    uint64_t value = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const Segment& segment = segments[i];
        const bool first = i == 0, last = i + 1 == segments.size();
        HK_TRY(submission.primary.begin());
        if (submission.timer) submission.primary.reset_timer(*submission.timer);
        if (first) begin_work(submission.primary);
        if (submission.timer) submission.primary.timestamp(*submission.timer, 0);
        submission.primary.execute(*segment.commands);
        if (submission.timer) submission.primary.timestamp(*submission.timer, 1);
        if (last) end_work(submission.primary);
        HK_TRY(submission.primary.end());
        const auto begin = std::chrono::steady_clock::now();
        HK_ASSIGN(value, send(submission.primary, first ? options.waits : std::span<const TimelinePoint>(),
                              last ? options.signals : std::span<const TimelinePoint>()));
        HK_TRY(wait(value));
        double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (submission.timer) {
            HK_ASSIGN(const std::vector<double> ticks, submission.timer->read(0, 2));
            seconds = ticks[1] * 1e-9;
        }
        const std::lock_guard guard(work_mutex_);
        if (segment.measured) *segment.measured = std::max(*segment.measured, seconds);
        measured_ += seconds;
        estimated_ += std::max(segment.seconds, kLeastSeconds);
        longest_ = std::max(longest_, seconds);
        if (cancelled_) return Status(Code::cancelled, "the work on the device was cancelled");
    }
    return value;
}

double BudgetedQueue::cost(const Segment& segment) const {
    if (segment.measured && *segment.measured > 0) return *segment.measured;
    const double estimate = std::max(segment.seconds, kLeastSeconds);
    return estimated_ > 0 ? kUnmeasuredFactor * estimate * measured_ / estimated_ : estimate;
}

Result<bool> BudgetedQueue::is_complete(const Submission& submission) {
    if (!submission.leased) return Queue::wait_value(submission.end.value, 0);
    uint64_t value = 0;
    HK_TRY(device()->check(
        device()->functions().vkGetSemaphoreCounterValue(device()->handle(), submission.end.semaphore, &value),
        "vkGetSemaphoreCounterValue"));
    return value >= submission.end.value;
}

Status BudgetedQueue::collect() {
    while (!submissions_.empty()) {
        Submission& submission = *submissions_.front();
        HK_ASSIGN(const bool over, is_complete(submission));
        if (!over) return {};
        if (submission.timer && !submission.segments.empty()) {
            const auto count = static_cast<uint32_t>(submission.segments.size());
            HK_ASSIGN(const std::vector<double> ticks, submission.timer->read(0, count + 1));
            for (std::size_t i = 0; i < count; ++i) {
                const double seconds = (ticks[i + 1] - ticks[i]) * 1e-9;
                longest_ = std::max(longest_, seconds);
                if (!submission.segments[i].measured) continue;
                // Grows immediately and shrinks slowly, so that budgets are met rather than filled.
                double& known = *submission.segments[i].measured;
                known = seconds > known ? seconds : 0.9 * known + 0.1 * seconds;
            }
            spent_ = ticks[count] * 1e-9;
        }
        ended_ = std::max(ended_, submission.ended_job);
        submission.segments.clear();
        idle_.push_back(std::move(submissions_.front()));
        submissions_.pop_front();
    }
    return {};
}

Status BudgetedQueue::record(Submission& submission, CommandBuffer& into, const Work& work, Advanced& advanced,
                             std::vector<TimelinePoint>& waits, std::vector<TimelinePoint>& signals) {
    submission.ended_job = 0;
    if (submission.timer && !jobs_.empty()) {
        into.reset_timer(*submission.timer);
        into.timestamp(*submission.timer, 0);
    }
    bool full = false;
    while (!jobs_.empty() && !full) {
        Job& job = jobs_.front();
        if (job.next == 0) {
            if (work.into != VK_NULL_HANDLE && !(job.waits.empty() && job.signals.empty()))
                return unsupported("this work waits for or signals semaphores: submit it, it cannot be recorded");
            waits.insert(waits.end(), job.waits.begin(), job.waits.end());
            begin_work(into);
        }
        for (; job.next < job.segments.size(); ++job.next) {
            const Segment& segment = job.segments[job.next];
            const double seconds = cost(segment);
            const std::size_t taken = submission.segments.size();
            full = taken == kMaxSegments || (taken > 0 && advanced.seconds + seconds > work.seconds);
            if (full) break;
            into.execute(*segment.commands);
            submission.segments.push_back(segment);
            if (submission.timer) into.timestamp(*submission.timer, static_cast<uint32_t>(submission.segments.size()));
            advanced.seconds += seconds;
        }
        if (full) break;
        end_work(into);
        submission.ended_job = job.number;
        signals.insert(signals.end(), job.signals.begin(), job.signals.end());
        jobs_.pop_front();
    }
    advanced.segments = submission.segments.size();
    advanced.more = !jobs_.empty();
    return {};
}

Result<BudgetedQueue::Advanced> BudgetedQueue::submit_within(const Work& work) {
    HK_TRY(collect());
    Advanced advanced;
    advanced.spent = spent_;
    advanced.longest = longest_;
    advanced.more = !jobs_.empty();
    // A command buffer cannot wait for submissions that end with this queue's own semaphore.
    const bool recorded = work.into != VK_NULL_HANDLE;
    advanced.busy =
        idle_.empty() ||
        (recorded && std::ranges::any_of(submissions_, [](const auto& submission) { return !submission->leased; }));
    const bool submits = advanced.more && work.seconds > 0; // only the metered mode has more
    if (advanced.busy || (!submits && work.waits.empty() && work.signals.empty())) return advanced;
    Submission& submission = *idle_.back();
    submission.leased = recorded;
    std::vector<TimelinePoint> waits(work.waits.begin(), work.waits.end()),
        signals(work.signals.begin(), work.signals.end());
    if (recorded) {
        CommandBuffer into = CommandBuffer::borrow(device(), work.into);
        // Barrier against all of the host's commands before and after.
        constexpr VkAccessFlags2 kAll = VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT;
        const auto full_barrier = [&] {
            into.barrier(VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, VK_ACCESS_2_MEMORY_WRITE_BIT,
                         VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, kAll);
        };
        full_barrier();
        HK_TRY(record(submission, into, work, advanced, waits, signals));
        full_barrier();
        submission.end = work.lease;
    } else {
        HK_TRY(submission.primary.begin());
        if (submits) HK_TRY(record(submission, submission.primary, work, advanced, waits, signals));
        HK_TRY(submission.primary.end());
        for (const auto& before : submissions_)
            if (before->leased) waits.push_back(before->end);
        HK_ASSIGN(submission.end.value, send(submission.primary, waits, signals));
    }
    submissions_.push_back(std::move(idle_.back()));
    idle_.pop_back();
    return advanced;
}

Result<BudgetedQueue::Advanced> BudgetedQueue::advance(const Work& work) {
    HK_TRY(device()->alive());
    Result<Advanced> result = Advanced();
    {
        const std::lock_guard guard(work_mutex_);
        HK_TRY(failed_);
        if (work.into != VK_NULL_HANDLE) {
            uint64_t value = 0;
            HK_TRY(device()->check(
                device()->functions().vkGetSemaphoreCounterValue(device()->handle(), work.lease.semaphore, &value),
                "vkGetSemaphoreCounterValue"));
            for (const auto& submission : submissions_)
                if (submission->leased && submission->end.semaphore == work.lease.semaphore)
                    value = std::max(value, submission->end.value);
            if (work.lease.value <= value)
                return invalid_argument(
                    fmt::format("hk_advance.lease.value is {}, expected above {}, which the semaphore has reached or "
                                "is leased up to",
                                work.lease.value, value));
        }
        Work allowed = work;
        if (suspended_ || is_suspended_) allowed.seconds = 0;
        result = submit_within(allowed);
        if (!result.ok()) failed_ = result.status();
    }
    advanced_.notify_all();
    return result;
}

void BudgetedQueue::drain() {
    if (mode_ == Mode::metered) mode_ = Mode::direct;
    advanced_.notify_all();
}

void BudgetedQueue::cancel() {
    {
        const std::lock_guard guard(work_mutex_);
        cancelled_ = true;
        jobs_.clear();
    }
    advanced_.notify_all();
}

Result<bool> BudgetedQueue::wait_for_device(uint64_t value, uint64_t timeout_nanoseconds) {
    if (!pause_) return Queue::wait_value(value, timeout_nanoseconds);
    const Remaining left(timeout_nanoseconds);
    for (;;) {
        const uint64_t rest = left();
        HK_ASSIGN(const bool reached, Queue::wait_value(value, std::min(rest, kPauseNanoseconds)));
        if (reached || rest == 0) return reached;
        pause_(false);
    }
}

BudgetedQueue::Next BudgetedQueue::next_step(uint64_t job) const {
    if (ended_ >= job) return {Step::done, {}};
    const bool ends = cancelled_ || !failed_.ok(); // nothing more will be submitted
    if (submissions_.empty() && ends) return {Step::fail, {}};
    const bool wanted = suspended_ && !ends;
    const bool suspends = wanted && std::ranges::all_of(jobs_, [](const Job& one) {
                              return std::ranges::all_of(one.segments, &Segment::rerecordable);
                          });
    if (suspends && submissions_.empty()) return {Step::suspend, {}};
    // Only copies are not rerecordable, and they are completed before the suspension.
    if ((mode_ != Mode::metered || (wanted && !suspends)) && !jobs_.empty() && !idle_.empty())
        return {Step::submit, {}};
    const auto ends_job = std::ranges::find_if(
        submissions_, [&](const auto& submission) { return !cancelled_ && submission->ended_job >= job; });
    if (submissions_.empty() || (ends_job == submissions_.end() && !ends && !suspends))
        return {Step::wait_for_host, {}};
    // Submissions complete in order, so if none ends the job, wait for the last one.
    const Submission& last = ends_job != submissions_.end() ? **ends_job : *submissions_.back();
    return {last.leased ? Step::wait_for_lease : Step::wait_for_device, last.end};
}

Result<bool> BudgetedQueue::wait_value(uint64_t value, uint64_t timeout_nanoseconds) {
    if ((value & kTicket) == 0) return wait_for_device(value, timeout_nanoseconds);
    const uint64_t job = value & ~kTicket;
    const Remaining left(timeout_nanoseconds);
    std::unique_lock lock(work_mutex_);
    for (;;) {
        HK_TRY(collect());
        const Next next = next_step(job);
        if (next.step == Step::done) return true;
        if (next.step == Step::fail)
            return cancelled_ ? Status(Code::cancelled, "the work on the device was cancelled") : failed_;
        if (next.step == Step::suspend) {
            HK_TRY(suspend_waiting(lock));
            continue;
        }
        if (next.step == Step::submit) {
            HK_TRY(submit_all());
            continue;
        }
        const uint64_t rest = left();
        if (rest == 0) return false;
        // The next advance() collects completed submissions, so in the metered mode this always waits for the host.
        if ((next.step == Step::wait_for_host || mode_ == Mode::metered) && pause_for_host(lock)) continue;
        if (next.step == Step::wait_for_host) {
            wait_for_host(lock, rest);
            continue;
        }
        lock.unlock();
        if (next.step == Step::wait_for_lease)
            HK_TRY(wait_for_lease(next.end, rest));
        else
            HK_TRY(wait_for_device(next.end.value, rest).status());
        lock.lock();
    }
}

Status BudgetedQueue::submit_all() {
    Work all;
    all.seconds = 1e9;
    Status submitted = submit_within(all).status();
    if (!submitted.ok()) failed_ = submitted;
    return submitted;
}

Status BudgetedQueue::suspend_waiting(std::unique_lock<std::mutex>& lock) {
    const std::function<Status()> suspended = suspended_;
    lock.unlock();
    Status resumed = suspend(suspended);
    lock.lock();
    if (!resumed.ok()) failed_ = resumed; // the remaining work will not be submitted
    return resumed;
}

bool BudgetedQueue::pause_for_host(std::unique_lock<std::mutex>& lock) {
    if (!pause_) return false;
    lock.unlock();
    const bool paused = pause_(true);
    lock.lock();
    return paused;
}

void BudgetedQueue::wait_for_host(std::unique_lock<std::mutex>& lock, uint64_t nanoseconds) {
    advanced_.wait_for(lock, std::chrono::nanoseconds(std::min(nanoseconds, kSleepNanoseconds)));
}

Status BudgetedQueue::wait_for_lease(const TimelinePoint& lease, uint64_t nanoseconds) {
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &lease.semaphore;
    info.pValues = &lease.value;
    const uint64_t longest = pause_ ? kPauseNanoseconds : kSleepNanoseconds;
    const VkResult result =
        device()->functions().vkWaitSemaphores(device()->handle(), &info, std::min(nanoseconds, longest));
    if (result != VK_TIMEOUT) return device()->check(result, "vkWaitSemaphores");
    if (pause_) pause_(false);
    return {};
}

void BudgetedQueue::set_suspended(std::function<Status()> suspended) {
    {
        const std::lock_guard guard(work_mutex_);
        suspended_ = std::move(suspended);
    }
    advanced_.notify_all();
}

Status BudgetedQueue::suspend(const std::function<Status()>& suspended) {
    const auto set = [&](bool is) {
        const std::lock_guard guard(work_mutex_);
        is_suspended_ = is;
    };
    set(true);
    Status status;
    try {
        status = within_memory("while the queue was suspended", suspended);
    } catch (...) {
        set(false);
        throw;
    }
    set(false);
    return status;
}

void BudgetedQueue::give_way() {
    if (!pause_ || !pause_(false)) Queue::give_way();
}

Status BudgetedQueue::wait_all() {
    uint64_t number = 0;
    {
        const std::lock_guard guard(work_mutex_);
        number = is_suspended_ ? 0 : made_;
    }
    if (number > 0) HK_TRY(wait(kTicket | number));
    return Queue::wait_all();
}

} // namespace hekla::gpu
