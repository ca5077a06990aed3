// What hk_session stands for: code that trains or writes on a queue of its own, which the host advances, on a thread of
// its own or on the host's.
#pragma once

#include "api/call_environment.hpp"
#include "api/context.hpp"
#include "base/fiber.hpp"
#include "gpu/budgeted_queue.hpp"
#include "hekla/model.h"
#include "hekla/session.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace hekla::api {

class Session final : public Context::Client, public std::enable_shared_from_this<Session> {
public:
    static constexpr uint64_t kHandleKind = 3;

    // Each begins the thread, where there is one.
    static Result<std::shared_ptr<Session>> train(const std::shared_ptr<Context>& context,
                                                  const hk_train_options& options, const hk_session_options* own);
    static Result<std::shared_ptr<Session>> generate(const std::shared_ptr<Context>& context,
                                                     const hk_generate_options& options, const hk_session_options* own);
    static Result<std::shared_ptr<Session>> forward(const std::shared_ptr<Context>& context,
                                                    const hk_forward_options& options, const hk_session_options* own);
    ~Session() override;

    std::shared_ptr<Capture> capture() const { return context_->capture(); }
    // pair: of an encoder-decoder, whose decoder reads `decoder_ids`.
    Status pass(const int32_t* ids, const uint64_t* lengths, const int32_t* decoder_ids, bool pair);
    std::size_t pass_rows() const; // 0: it makes no passes
    std::size_t pass_length() const;
    std::size_t decoder_length() const;
    Status tensor(const std::string& name, hk_tensor& out);
    // Of model.h.
    Status tensors(const std::function<void(const std::string& name, const hk_tensor&)>& give);
    Status parameters(const std::function<void(const hk_parameter&)>& give);
    Status parameter(const std::string& name, int32_t what, hk_tensor& out);
    Status prompt(std::vector<std::string> prompts);
    // Sets a step scalar, from the next step or pass on.
    Status set_scalar(const std::string& name, double value);
    void wait(std::chrono::nanoseconds time, hk_session_info& out);
    Status advance(const hk_advance& advance, hk_advanced* out);
    Status run(); // of a context that begins no threads: on this one, until it ends
    // failed_precondition: called from one of them.
    Status replace(const hk_session_callbacks& callbacks);
    // It has a handle now. Where it runs as jobs, this asks for the first.
    void announce(uint64_t handle);
    void ask_for_job(); // if it runs as jobs: there is something to do. mutex_ is not held
    // Its device memory goes, and comes back. false: the time was up.
    Result<bool> release_memory(std::chrono::nanoseconds time);
    Status restore_memory();
    void stop();    // after the step, or token, that runs; the host goes on to advance
    void destroy(); // at once
    // As stop(), without the host: what is left is done as fast as it can be.
    bool leave(std::chrono::steady_clock::time_point until) override;
    bool is_here() const override { return thread_id_ == std::this_thread::get_id(); }
    Waits run_on() override;

private:
    Session() = default;
    Status open(const std::shared_ptr<Context>& context, const hk_session_options* own);
    void begin(std::function<Status()> body);
    void work(const std::function<Status()>& body);
    void end(Status status);
    bool asked_to_stop(); // by the host's callback
    void drop_unbegun();  // what nobody ran has ended
    Status make_fiber(std::function<Status()> body);
    // Of its own code, instead of waiting: goes back to who runs it on. false: it has a thread, which may wait.
    bool pause(bool for_host);
    // Its own code waits until the host has done something.
    void wait_here(std::unique_lock<std::mutex>& lock, const std::function<bool()>& wanted);
    // The host waits until its code has: where that has no thread it is run on. false: the time was up.
    bool wait_for(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until,
                  const std::function<bool()>& wanted);
    Status run_training(const hk_train_options& options, const std::vector<std::string>& texts);
    Status run_generation(const hk_generate_options& options, const std::string& model);
    struct Passes;
    Status run_forward(Passes& passes);
    Status has_passes();                                // mutex_ is held
    Result<program::ParameterStore*> parameter_store(); // mutex_ is held
    // The store that hosts may look into while this lives.
    class Shown {
    public:
        Shown(Session& session, program::ParameterStore& store);
        ~Shown();
        Shown(const Shown&) = delete;
        Shown& operator=(const Shown&) = delete;

    private:
        Session& session_;
    };
    // Runs what the session will do, again and again, until it is known how long each piece takes.
    Status measure(const std::function<Status()>& rehearse);
    // Everything is there: from now on the host's budgets hold.
    Status prepared();
    // By its own thread, with nothing pending: without its memory until that is wanted again.
    Status rest();
    // Until something is to be done; rests meanwhile where that is wanted.
    Status wait_for_work(const std::function<bool()>& wanted);
    void set_progress(double progress);
    void set_state(int32_t state);
    // The step scalars of the session's graph: from now on the host may set them.
    void publish_scalars(std::vector<std::string> names);
    std::map<std::string, double, std::less<>> scalars(); // those that the host has set
    CallEnvironment place();
    std::shared_ptr<gpu::BudgetedQueue> queue();

    std::shared_ptr<Context> context_;
    std::shared_ptr<gpu::BudgetedQueue> queue_; // null when the device was given back
    std::unique_ptr<program::Runtime> runtime_;
    int64_t length_ = 0;
    // Of hk_session_callbacks.
    struct Callbacks {
        void* user = nullptr;
        void(HK_ABI* step)(void* user, const hk_train_step* step) = nullptr;
        void(HK_ABI* evaluation)(void* user, const hk_train_evaluation* evaluation) = nullptr;
        void(HK_ABI* message)(void* user, hk_string message) = nullptr;
        void(HK_ABI* text)(void* user, uint64_t row, hk_string text) = nullptr;
        void(HK_ABI* done)(void* user, uint64_t pass) = nullptr;
        int32_t(HK_ABI* stop)(void* user) = nullptr;
    };
    Replaceable<Callbacks> callbacks_;
    std::thread thread_;
    std::function<Status()> body_; // until somebody runs it
    std::mutex running_;           // held by the one who runs it on; before mutex_
    std::unique_ptr<Fiber> fiber_; // in stretches; running_ is held
    std::atomic<bool> in_stretches_{false}, job_wanted_{false};
    bool waits_for_host_ = false; // running_ is held
    std::atomic<uint64_t> handle_{0};
    std::atomic<std::thread::id> thread_id_{};
    std::atomic<bool> stopping_{false};
    std::atomic<int64_t> step_{0};

    std::mutex mutex_;
    std::condition_variable changed_;
    int32_t state_ = HK_SESSION_PREPARING;
    double progress_ = 0;
    double longest_ = 0;
    bool stopped_ = false, ended_ = false;
    // One call of release_memory() or restore_memory() that waits; each caller has its own, on its stack.
    struct MemoryRequest {
        std::optional<Status> answer;
    };
    static void answer(std::vector<MemoryRequest*>& requests, const Status& status); // mutex_ is held
    std::vector<MemoryRequest*> releases_, restores_;                                // not yet answered
    // released_: the memory is evicted. stays_released_: no caller has asked to restore it.
    bool released_ = false, stays_released_ = false, destroyed_ = false;
    Status failed_;
    bool writes_ = false;                             // made by generate()
    std::optional<std::vector<std::string>> prompts_; // not yet taken
    std::size_t rows_ = 0;                            // of the first prompts
    bool interrupted_ = false;                        // new prompts came while it writes
    std::shared_ptr<Passes> passes_;                  // of a forward session
    std::optional<std::vector<std::string>> scalar_names_;
    std::map<std::string, double, std::less<>> scalars_; // set by the host
    program::ParameterStore* store_ = nullptr;           // once prepared, of a training or forward session
};

} // namespace hekla::api
