// Implementation of hk_session: code that trains, generates or runs passes on a queue with a time budget, which the
// host advances. The thread it runs on is defined in session_executor.hpp, the code itself in training_session.hpp,
// generation_session.hpp and forward_session.hpp.
#pragma once

#include "api/context.hpp"
#include "api/session_executor.hpp"
#include "gpu/budgeted_queue.hpp"
#include "hekla/model.h"
#include "hekla/session.h"
#include "program/runtime.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hekla::api {

struct CallEnvironment;

class LoadedAdapter;

class Session : public Context::Client, public std::enable_shared_from_this<Session> {
public:
    static constexpr uint64_t kHandleKind = 3;

    // Sets the handle that the host got. If the session runs as jobs, requests the first.
    void set_handle(uint64_t handle);
    std::shared_ptr<Capture> capture() const { return context_->capture(); }
    // Requests a job from the host if the session runs as jobs and has none. mutex_ is not held.
    void ask_for_job();
    // Runs a session without a thread on this one until it ends. failed_precondition: it has a thread, or had one.
    Status run();
    // Waits until the session is prepared or time is up, and describes it.
    void describe(std::chrono::nanoseconds time, hk_session_info& out);
    Status advance(const hk_advance& advance, hk_advanced* out);
    // failed_precondition: called from a callback of the session.
    Status replace(const hk_session_callbacks& callbacks);

    // Evicts the session's device memory. Returns false on timeout: it then keeps its memory, unless another caller
    // waits for it too.
    Result<bool> release_memory(std::chrono::nanoseconds time);
    Status restore_memory();

    void stop();    // after the current step or token; the host continues to advance
    void destroy(); // immediately
    // Like stop(), but drains the queue without the host. Returns false on timeout.
    bool shut_down(std::chrono::steady_clock::time_point until) override;
    bool on_own_thread() const override { return executor_->on_own_thread(); }
    ResumeResult resume() override;

    // Only for a training or passes that are prepared and have not ended.
    Status parameters(const std::function<void(const hk_parameter&)>& give);
    Status parameter(const std::string& name, int32_t what, hk_tensor& out);

    // Only for a training or passes: sets a step scalar, from the next step or pass on.
    virtual Status set_scalar(const std::string& name, double value);

    // Only for a generation.
    virtual Status prompt(std::vector<std::string> prompts);
    virtual Status put_adapter(int32_t slot, const LoadedAdapter* adapter); // null: empties the slot
    virtual Status set_adapter_row(uint64_t row, int32_t slot, double scale, int32_t flags);

    // Only for passes.
    struct PassShape {
        std::size_t rows = 0, length = 0, decoder_length = 0; // decoder_length 0: the decoder reads the encoder's ids
    };
    virtual PassShape pass_shape() const { return {}; }
    // pair: with ids for the decoder of an encoder-decoder.
    virtual Status pass(const int32_t* ids, const uint64_t* lengths, const int32_t* decoder_ids, bool pair);
    virtual Status tensor(const std::string& name, hk_tensor& out);
    virtual Status tensors(const std::function<void(const std::string& name, const hk_tensor&)>& give);

protected:
    enum class Phase : int32_t { preparing, working, idle, released, done, failed };
    // Makes the store's parameters visible to the host during its lifetime.
    class PublishedStore {
    public:
        PublishedStore(Session& session, program::ParameterStore& store);
        ~PublishedStore();
        PublishedStore(const PublishedStore&) = delete;
        PublishedStore& operator=(const PublishedStore&) = delete;

    private:
        Session& session_;
    };

    Session() = default;
    // Makes a session of a derived class, whose code must have ended before it is destroyed.
    template<class T, class... A>
    static std::shared_ptr<T> make(A&&... arguments) {
        return std::shared_ptr<T>(new T(std::forward<A>(arguments)...), [](T* session) {
            session->finish_in_stretches();
            delete session;
        });
    }
    // Creates the queue and the memory of the session, and starts work().
    Status start(const std::shared_ptr<Context>& context, const hk_session_options* own);

    // The code of the session. It waits in the budgeted queue, or in wait_for_work().
    virtual Status work() = 0;
    // Called after the memory was restored, when buffers have new addresses. mutex_ is held.
    virtual void memory_restored() {}

    // Runs what the session will do until the time of each slice is known.
    Status calibrate(const std::function<Status()>& rehearse);
    // Ends the preparation: from now on the device works only within the host's budgets.
    Status enter_metered_mode(Phase next);
    // Waits until `holds` or a request to stop; meanwhile evicts and restores the memory on request. Returns false for
    // a request to stop.
    Result<bool> wait_for_work(const std::function<bool()>& holds);
    void set_progress(double progress);
    void set_phase(Phase phase);                                                    // mutex_ is held
    bool ended() const { return phase_ == Phase::done || phase_ == Phase::failed; } // mutex_ is held
    bool stop_requested() const { return requests_.stop; }
    bool asked_to_stop(); // by the host's callback
    // Calls a callback of the host, if it has it: tell<&hk_session_callbacks::message>(text).
    template<auto member, class... A>
    void tell(A... arguments) {
        callbacks_.call([&](const hk_session_callbacks& host) {
            if (host.*member != nullptr) (host.*member)(host.user, arguments...);
        });
    }
    // Publishes the names of the session's step scalars: from now on the host may set them.
    void publish_scalars(std::vector<std::string> names);
    std::map<std::string, double, std::less<>> scalars(); // those that the host has set
    CallEnvironment environment();
    Status not_prepared() const; // mutex_ is held
    Status has_memory() const;   // mutex_ is held; an error while memory is evicted, whose buffers move
    Status no_passes() const;
    Status no_slots() const;
    const std::shared_ptr<Context>& context() const { return context_; }
    uint64_t handle() const { return handle_; }

    std::unique_ptr<program::Runtime> runtime_;
    int64_t length_ = 0; // hk_session_options.length
    Replaceable<hk_session_callbacks> callbacks_;
    std::atomic<int64_t> step_{0};
    std::mutex mutex_;
    Phase phase_ = Phase::preparing;
    Status failed_;
    bool stopped_ = false; // ended by a request or the stop callback
    bool evicting_ = false;

private:
    // A call of release_memory() or restore_memory() that waits for its answer. Each caller has its own.
    class MemoryRequest {
    public:
        MemoryRequest(std::vector<MemoryRequest*>& requests, std::unique_lock<std::mutex>& lock);
        ~MemoryRequest();
        MemoryRequest(const MemoryRequest&) = delete;
        MemoryRequest& operator=(const MemoryRequest&) = delete;
        std::optional<Status> answer;

    private:
        std::vector<MemoryRequest*>& requests_;
        std::unique_lock<std::mutex>& lock_;
    };
    // Requests of the host. Guarded by mutex_, except `stop`, which other threads read too.
    struct Requests {
        std::atomic<bool> stop{false};
        bool destroy = false;
        bool shut_down = false;
        std::vector<MemoryRequest*> release, restore; // not yet answered
    };
    static void answer(std::vector<MemoryRequest*>& requests, const Status& status);
    void run_work();
    void finish(Status status);
    void finish_in_stretches();
    void drop_if_not_started();
    // Called in the session's code, with nothing pending: evicts the memory, waits for the restore request, restores
    // it.
    Status wait_without_memory();
    Status evict_and_wait();
    int32_t state() const; // HK_SESSION_*; mutex_ is held
    Result<program::ParameterStore*> parameter_store();
    std::shared_ptr<gpu::BudgetedQueue> queue();

    std::shared_ptr<Context> context_;
    std::unique_ptr<SessionExecutor> executor_;
    std::shared_ptr<gpu::BudgetedQueue> queue_; // null when the device was released
    std::atomic<uint64_t> handle_{0};
    std::atomic<bool> job_wanted_{false};
    Requests requests_;
    Phase resumes_as_ = Phase::working; // while released: the phase after the memory was restored
    double progress_ = 0;
    double longest_ = 0;                       // seconds
    program::ParameterStore* store_ = nullptr; // see PublishedStore
    std::optional<std::vector<std::string>> scalar_names_;
    std::map<std::string, double, std::less<>> scalars_;
};

} // namespace hekla::api
