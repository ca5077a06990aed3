#include "api/session.hpp"
#include "api/call_environment.hpp"

#include "api/boundary.hpp"
#include "api/capture.hpp"
#include "api/handles.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cstring>

namespace hekla::api {
namespace {

constexpr double kDispatchMicroseconds = 250; // the default of hk_session_options.microseconds
constexpr double kSegmentsPerDispatch = 8;    // segments are shorter, to fill budgets well
constexpr uint64_t kStagingBytes = uint64_t{1} << 20;
constexpr std::chrono::microseconds kBetweenLastStretches(100);

std::vector<gpu::TimelinePoint> points(const hk_timeline* timelines, uint64_t count) {
    std::vector<gpu::TimelinePoint> result;
    for (uint64_t i = 0; i < count; ++i) {
        gpu::TimelinePoint point;
        static_assert(sizeof point.semaphore == sizeof timelines[i].semaphore);
        std::memcpy(&point.semaphore, &timelines[i].semaphore, sizeof point.semaphore);
        point.value = timelines[i].value;
        result.push_back(point);
    }
    return result;
}

std::chrono::steady_clock::time_point in_a_year() {
    return std::chrono::steady_clock::now() + std::chrono::hours(24 * 365);
}

} // namespace

Status Session::start(const std::shared_ptr<Context>& context, const hk_session_options* own) {
    double microseconds = kDispatchMicroseconds;
    if (own != nullptr) {
        if (own->microseconds > 0) microseconds = own->microseconds;
        length_ = own->length;
    }
    context_ = context;
    executor_ = std::make_unique<SessionExecutor>(context->own_threads());
    executor_->set_resume([this] { resume(); });
    HK_ASSIGN(const Context::Device base, context->device());
    gpu::Context gpu = base.gpu;
    HK_ASSIGN(queue_, gpu::BudgetedQueue::create(gpu.device));
    gpu.queue = queue_;
    HK_ASSIGN(gpu.memory, gpu::Memory::create_separate(*gpu.memory)); // separate, to be evicted alone
    HK_ASSIGN(gpu.staging, gpu::Staging::create(gpu.memory, queue_, kStagingBytes));
    program::RuntimeOptions options = base.options;
    options.budget_seconds = microseconds * 1e-6;
    options.segment_seconds = microseconds * 1e-6 / kSegmentsPerDispatch;
    HK_ASSIGN(runtime_, program::Runtime::create(std::move(gpu), options));
    const std::shared_ptr<Session> self = shared_from_this();
    return context->add(self, [&] { executor_->start(self, [this] { run_work(); }); });
}

void Session::run_work() {
    Status status;
    try {
        status = work();
    } catch (const std::bad_alloc&) {
        status = Status(Code::out_of_memory, "out of memory");
    } catch (const std::exception& e) { status = internal_error(e.what()); } catch (...) {
        status = internal_error("an exception of an unknown type");
    }
    queue()->cancel(); // nothing is submitted any more
    {
        const std::lock_guard guard(mutex_);
        if (status.code() == Code::cancelled && requests_.stop && !requests_.destroy) {
            status = {}; // it was stopped while it waited for another session to load the weights
            stopped_ = true;
        }
    }
    finish(std::move(status));
}

void Session::finish(Status status) {
    runtime_.reset();
    {
        const std::lock_guard guard(mutex_);
        phase_ = status.ok() ? Phase::done : Phase::failed;
        failed_ = std::move(status);
    }
    executor_->notify();
}

void Session::finish_in_stretches() {
    if (executor_ == nullptr || !executor_->in_stretches()) return;
    if (const auto queue = this->queue()) queue->cancel(); // destroyed by its own callback
    while (resume() != ResumeResult::ended) std::this_thread::sleep_for(kBetweenLastStretches);
}

void Session::drop_if_not_started() {
    if (executor_->drop()) finish(Status(Code::cancelled, "the session ended before it was run"));
}

ResumeResult Session::resume() {
    using Pause = SessionExecutor::Pause;
    const Result<ResumeResult> result = executor_->resume([this] {
        queue()->set_pause(
            [this](bool for_advance) { return executor_->pause(for_advance ? Pause::for_host : Pause::for_device); });
    });
    if (result.ok()) return result.value();
    finish(result.status());
    return ResumeResult::ended;
}

Status Session::run() {
    if (context_->gives_jobs())
        return failed_precondition("the session runs as jobs of the host (hk_context_options.job)");
    if (executor_->run()) return {};
    return failed_precondition(context_->own_threads() ? "the session has a thread: make the context with no_threads"
                                                       : "the session runs already, or has ended");
}

void Session::set_handle(uint64_t handle) {
    handle_ = handle;
    ask_for_job();
}

void Session::ask_for_job() {
    if (!context_->gives_jobs() || handle_ == 0 || job_wanted_.exchange(true)) return;
    const auto run = [](void* data) {
        guarded(nullptr, [&]() -> Status {
            HK_ASSIGN(const std::shared_ptr<Session> session,
                      Handles<Session>::all().find(reinterpret_cast<uintptr_t>(data), "session"));
            session->job_wanted_ = false;
            if (session->resume() == ResumeResult::waits_for_device) session->ask_for_job();
            return {};
        });
    };
    static_assert(sizeof(void*) >= sizeof handle_);
    context_->give_job(run,
                       reinterpret_cast<void*>(handle_.load())); // only converted back there
}

CallEnvironment Session::environment() {
    return {context_->registry(),
            context_->log(),
            runtime_.get(),
            [this] { return requests_.stop.load(std::memory_order_relaxed); },
            context_->own_threads(),
            &context_->weights(),
            [this] { return scalars(); }};
}

bool Session::asked_to_stop() {
    return callbacks_.call(
        [](const hk_session_callbacks& host) { return host.stop != nullptr && host.stop(host.user) != 0; });
}

Status Session::replace(const hk_session_callbacks& given) {
    if (on_own_thread())
        return failed_precondition("a callback cannot replace the callbacks: it would wait for itself");
    callbacks_.replace(given);
    return {};
}

Status Session::calibrate(const std::function<Status()>& rehearse) {
    HK_TRY(rehearse()); // a driver may compile at the first run
    HK_TRY(queue_->set_mode(gpu::BudgetedQueue::Mode::measuring));
    HK_TRY(rehearse());
    HK_TRY(runtime_->gpu().staging->reserve()); // before the records of more slices use up the memory
    HK_ASSIGN(const bool resplit, runtime_->resplit());
    if (!resplit) return {};
    queue_->forget();
    return rehearse();
}

Status Session::enter_metered_mode(Phase next) {
    HK_TRY(queue_->set_mode(gpu::BudgetedQueue::Mode::metered));
    const double longest = queue_->longest();
    context_->keep_caches(*runtime_);
    if (requests_.stop) queue_->drain(); // it was shut down during the preparation
    {
        const std::lock_guard guard(mutex_);
        progress_ = 1.0;
        longest_ = longest;
        set_phase(next);
    }
    executor_->notify();
    return {};
}

void Session::set_phase(Phase phase) {
    if (phase_ == Phase::released)
        resumes_as_ = phase;
    else
        phase_ = phase;
    executor_->notify();
}

void Session::set_progress(double progress) {
    const std::lock_guard guard(mutex_);
    progress_ = progress;
}

int32_t Session::state() const {
    switch (phase_) {
    case Phase::preparing: return HK_SESSION_PREPARING;
    case Phase::working: return HK_SESSION_WORKING;
    case Phase::idle: return HK_SESSION_IDLE;
    case Phase::released: return HK_SESSION_RELEASED;
    case Phase::done: return HK_SESSION_DONE;
    case Phase::failed: break;
    }
    return HK_SESSION_FAILED;
}

void Session::describe(std::chrono::nanoseconds time, hk_session_info& out) {
    std::unique_lock lock(mutex_);
    executor_->changed().wait_for(lock, time, [&] { return phase_ != Phase::preparing; });
    const uint32_t size = out.struct_size;
    out = hk_session_info{};
    out.struct_size = size;
    out.state = state();
    out.code = static_cast<int32_t>(failed_.code());
    out.stopped = stopped_ ? 1 : 0;
    out.progress = progress_;
    out.step = step_;
    out.longest = longest_ * 1e6;
    out.message = view(failed_.message());
}

Status Session::advance(const hk_advance& a, hk_advanced* out) {
    gpu::BudgetedQueue::Work work;
    const std::vector<gpu::TimelinePoint> waits = points(a.waits, a.wait_count),
                                          signals = points(a.signals, a.signal_count);
    work.seconds = a.microseconds * 1e-6;
    work.waits = waits;
    work.signals = signals;
    if (a.command_buffer != nullptr) {
        work.into = static_cast<VkCommandBuffer>(a.command_buffer);
        work.lease = points(&a.lease, 1).front();
    }
    {
        const std::lock_guard guard(mutex_);
        HK_TRY(failed_);
    }
    const std::shared_ptr<gpu::BudgetedQueue> queue = this->queue();
    if (queue == nullptr) return failed_precondition("the context's device was released");
    HK_ASSIGN(const gpu::BudgetedQueue::Advanced advanced, queue->advance(work));
    ask_for_job();
    const std::lock_guard guard(mutex_);
    longest_ = std::max(longest_, advanced.longest);
    if (out != nullptr) {
        out->state = state();
        out->busy = advanced.busy ? 1 : 0;
        out->more = advanced.more ? 1 : 0;
        out->pieces = advanced.segments;
        out->expected = advanced.seconds * 1e6;
        out->measured = advanced.spent * 1e6;
    }
    return {};
}

std::shared_ptr<gpu::BudgetedQueue> Session::queue() {
    const std::lock_guard guard(mutex_);
    return queue_;
}

void Session::stop() {
    {
        const std::lock_guard guard(mutex_);
        requests_.stop = true;
    }
    executor_->notify();
    ask_for_job();
}

Session::MemoryRequest::MemoryRequest(std::vector<MemoryRequest*>& requests, std::unique_lock<std::mutex>& lock)
    : requests_(requests), lock_(lock) {
    requests_.push_back(this);
}

Session::MemoryRequest::~MemoryRequest() {
    if (!lock_.owns_lock()) lock_.lock(); // an exception leaves wait_for() without it
    std::erase(requests_, this);
}

void Session::answer(std::vector<MemoryRequest*>& requests, const Status& status) {
    for (MemoryRequest* request : requests) request->answer = status;
    requests.clear();
}

// The queue suspends the submitting thread exactly while there are unanswered release requests: both change together
// under mutex_.
Result<bool> Session::release_memory(std::chrono::nanoseconds time) {
    if (on_own_thread()) return failed_precondition("a callback of a session cannot release its memory");
    const auto until = std::chrono::steady_clock::now() + time;
    std::unique_lock lock(mutex_);
    if (ended() || queue_ == nullptr) return failed_precondition("the session has ended: it holds no memory");
    if (phase_ == Phase::preparing) return failed_precondition("the session prepares: wait until it has prepared");
    if (requests_.shut_down) return failed_precondition("the context's device is being released");
    if (phase_ == Phase::released && requests_.restore.empty()) return true;
    MemoryRequest mine(requests_.release, lock);
    const std::shared_ptr<gpu::BudgetedQueue> queue = queue_;
    queue->set_suspended([this] { return wait_without_memory(); });
    executor_->notify();
    executor_->wait_for(lock, until, [&] { return mine.answer || ended(); });
    if (mine.answer) return mine.answer->ok() ? Result<bool>(true) : Result<bool>(*mine.answer);
    if (requests_.release.size() == 1) queue->set_suspended({}); // no other caller is waiting
    if (ended()) return failed_precondition("the session has ended: it holds no memory");
    return false;
}

Status Session::restore_memory() {
    if (on_own_thread()) return failed_precondition("a callback of a session cannot restore its memory");
    std::unique_lock lock(mutex_);
    if (phase_ != Phase::released) return {};
    MemoryRequest mine(requests_.restore, lock);
    executor_->notify();
    executor_->wait_for(lock, in_a_year(), [&] { return mine.answer || ended(); });
    return mine.answer ? *mine.answer : failed_;
}

Status Session::wait_without_memory() {
    {
        const std::lock_guard guard(mutex_);
        if (requests_.release.empty()) { // the last caller timed out
            queue_->set_suspended({});
            return {};
        }
    }
    return queue_->suspend([this] { return evict_and_wait(); });
}

Status Session::evict_and_wait() {
    {
        const std::lock_guard guard(mutex_);
        evicting_ = true;
    }
    Status evicted = runtime_->evict_device_memory();
    std::unique_lock lock(mutex_);
    evicting_ = false;
    if (evicted.code() == Code::internal) return evicted;
    answer(requests_.release, evicted);
    queue_->set_suspended({});
    if (evicted.ok()) {
        resumes_as_ = phase_;
        phase_ = Phase::released;
    }
    executor_->notify();
    while (phase_ == Phase::released) {
        executor_->wait(lock, [&] { return !requests_.restore.empty() || requests_.shut_down || requests_.destroy; });
        if (requests_.destroy) return Status(Code::cancelled, "the session was destroyed");
        lock.unlock();
        Status restored = runtime_->restore_device_memory();
        lock.lock();
        if (!restored.ok() && (restored.code() != Code::out_of_memory || requests_.stop)) return restored;
        if (restored.ok()) {
            memory_restored();
            phase_ = resumes_as_;
        }
        answer(requests_.restore, restored);
        executor_->notify();
    }
    return {};
}

Result<bool> Session::wait_for_work(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    for (;;) {
        executor_->wait(lock, [&] { return holds() || requests_.stop || !requests_.release.empty(); });
        if (requests_.release.empty()) break;
        lock.unlock();
        HK_TRY(wait_without_memory());
        lock.lock();
    }
    if (!requests_.stop) return true;
    stopped_ = true;
    return false;
}

bool Session::shut_down(std::chrono::steady_clock::time_point until) {
    stop();
    {
        const std::lock_guard guard(mutex_);
        requests_.shut_down = true; // the remaining work needs the memory
        answer(requests_.release, failed_precondition("the context's device is being released"));
        if (queue_ != nullptr) queue_->set_suspended({});
    }
    executor_->notify();
    if (const auto queue = this->queue()) queue->drain();
    drop_if_not_started();
    std::unique_lock lock(mutex_);
    if (!executor_->wait_for(lock, until, [&] { return ended(); })) return false;
    const std::shared_ptr<gpu::BudgetedQueue> last = std::move(queue_); // may wait for and lock the host's queue
    lock.unlock();
    return true;
}

void Session::destroy() {
    {
        const std::lock_guard guard(mutex_);
        requests_.destroy = true;
    }
    stop();
    if (const auto queue = this->queue()) queue->cancel();
    drop_if_not_started();
    if (executor_->join() || on_own_thread()) return;
    std::unique_lock lock(mutex_); // without its own thread, one of the host's runs it
    executor_->wait_for(lock, in_a_year(), [&] { return ended(); });
}

Status Session::not_prepared() const {
    return failed_precondition("the session prepares: wait until it has prepared (hk_session_wait)");
}

Status Session::has_memory() const {
    if (!evicting_ && phase_ != Phase::released) return {};
    return failed_precondition("the session's memory is released: hk_session_restore_memory brings it back, to other "
                               "addresses");
}

Status Session::no_passes() const {
    return invalid_argument("the session runs no passes: it was not made by hk_session_forward");
}

Status Session::prompt(std::vector<std::string>) { // NOLINT(performance-unnecessary-value-param): others keep it
    return invalid_argument("the session generates no text: it was not made by hk_session_generate");
}

Status Session::put_adapter(int32_t, const LoadedAdapter*) { return no_slots(); }

Status Session::set_adapter_row(uint64_t, int32_t, double, int32_t) { return no_slots(); }

Status Session::no_slots() const {
    return invalid_argument("the session has no adapter slots: set hk_generate_options.adapter_slots");
}

Status Session::pass(const int32_t*, const uint64_t*, const int32_t*, bool) { return no_passes(); }

Status Session::tensor(const std::string&, hk_tensor&) { return no_passes(); }

Status Session::tensors(const std::function<void(const std::string&, const hk_tensor&)>&) { return no_passes(); }

} // namespace hekla::api
