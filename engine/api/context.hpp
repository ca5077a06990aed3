// What hk_context stands for: plugins, and a device with everything that is on it.
#pragma once

#include "api/host_functions.hpp"
#include "base/log.hpp"
#include "hekla/hekla.h"
#include "plugin/registry.hpp"
#include "program/program.hpp"
#include "program/runtime_source.hpp"
#include "program/shared_weights.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace hekla::api {

class Capture;

class Context {
public:
    static constexpr uint64_t kHandleKind = 1;

    static Result<std::shared_ptr<Context>> create(const hk_context_options& options);

    const Log& log() const { return log_; }
    const plugin::Registry& registry() const { return registry_; }
    std::string_view device_name() const; // "" without a device, and before the one of HK_DEVICE_ON_DEMAND is created
    program::WeightsPool& weights() { return weights_; } // that its sessions read
    bool own_threads() const { return own_threads_; }    // false: hk_context_options.no_threads, or jobs
    bool gives_jobs() const { return gives_jobs_; }      // hk_context_options.job
    void give_job(void(HK_ABI* run)(void* data), void* data) const;
    // hekla/capture.h. begin_capture(""): none from now on.
    Status begin_capture(const std::string& path);
    std::shared_ptr<Capture> capture() const; // null: none

    // Of what it was made with. invalid_argument: others; failed_precondition: called from one of them.
    Status replace(const hk_context_callbacks& callbacks);
    // Whether what runs should end.
    bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

    // What lives on the context's device beside calls: a session.
    class Client {
    public:
        Client() = default;
        virtual ~Client() = default;
        Client(const Client&) = delete;
        Client& operator=(const Client&) = delete;
        // Ends and gives back everything of the device. false: the time was up.
        virtual bool leave(std::chrono::steady_clock::time_point until) = 0;
        virtual bool is_here() const = 0; // this thread is its own
        // Where the context has no threads: runs it on until it waits, on this one.
        enum class Waits : int32_t { ended, for_host, for_device }; // ended: or another thread runs all of it
        virtual Waits run_on() = 0;
    };
    // Begins it, unless the context is being destroyed or its device released (failed_precondition): it is told to end
    // before that.
    Status add(const std::shared_ptr<Client>& guest, const std::function<void()>& begin);
    // What a guest makes its own queue on. failed_precondition: the context has no device, or gave it back.
    struct Device {
        gpu::Context gpu;
        program::RuntimeOptions options;
    };
    Result<Device> device();
    // Gives the cache what was compiled since; a warning where that fails.
    void keep_caches(program::Runtime& runtime) const;

    // One call on the context, for as long as it lives.
    class Call {
    public:
        Call(Call&& other) noexcept : context_(std::move(other.context_)) {}
        Call& operator=(Call&&) = delete;
        ~Call();
        Context& context() const { return *context_; }
        // failed_precondition: the context has no device, or gave it back.
        Result<program::Runtime*> runtime() const;
        // The same when it is needed. `this` outlives it.
        program::RuntimeSource device() const;

    private:
        friend class Context;
        explicit Call(std::shared_ptr<Context> context) : context_(std::move(context)) {}
        std::shared_ptr<Context> context_;
    };
    // By the number that a host gave. failed_precondition where another call runs: on another thread, or the one whose
    // callback this is.
    static Result<Call> begin(hk_context handle);

    // Runs all guests on, for so long, or until each waits for the host. failed_precondition: others run them.
    struct Pumped {
        int32_t guests = 0, waiting = 0; // that have not ended; of them, for the host
    };
    Result<Pumped> pump(std::chrono::nanoseconds time);

    // Ends what runs and gives the device back. false: the time was up. failed_precondition: called from a callback of
    // what runs, which ends when that has returned.
    Result<bool> release(std::chrono::nanoseconds time);
    // The same for good: nothing begins any more, and where nothing runs any more what is known of plugins goes now,
    // although calls and sessions that ended may hold the context a little longer.
    Status close();

private:
    Context() = default;
    Result<program::Runtime*> runtime() const;
    // Creates the device of HK_DEVICE_ON_DEMAND, if it is still to be created. mutex_ is not held.
    Status create_device();
    Status set_runtime(gpu::Context device, const program::RuntimeOptions& options);
    Status open() const; // mutex_ is held, as for the next
    std::vector<std::shared_ptr<Client>> guests() const;
    Log log_;
    std::shared_ptr<std::pmr::memory_resource> host_memory_; // null: the process's own
    plugin::Registry registry_ = plugin::Registry::scan({});
    std::unique_ptr<program::Runtime> runtime_;
    std::string device_name_;
    bool has_device_ = false;          // or had one
    std::mutex creating_;              // held while create_ runs; before mutex_
    std::function<Status()> create_;   // HK_DEVICE_ON_DEMAND, until the device is created or released
    std::weak_ptr<const void> device_; // gpu::Device::presence(), once it is being released
    mutable std::mutex capture_mutex_;
    std::shared_ptr<Capture> capture_;
    std::atomic<bool> captured_{false};
    bool own_threads_ = true, gives_jobs_ = false;
    program::WeightsPool weights_;
    const std::shared_ptr<HostFunctions> functions_ = std::make_shared<HostFunctions>();
    std::atomic<bool> stopping_{false};
    mutable std::mutex mutex_;
    std::condition_variable ended_;
    bool busy_ = false, closed_ = false;
    std::thread::id busy_thread_;
    std::vector<std::weak_ptr<Client>> guests_;
};

} // namespace hekla::api
