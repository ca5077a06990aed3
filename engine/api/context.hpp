// Implementation of hk_context: plugins, and a device with everything on it.
#pragma once

#include "api/host_functions.hpp"
#include "api/session_executor.hpp"
#include "base/log.hpp"
#include "hekla/hekla.h"
#include "plugin/registry/registry.hpp"
#include "program/runtime.hpp"
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
    program::WeightsPool& weights() { return weights_; } // used by its sessions
    bool own_threads() const { return own_threads_; }    // false: hk_context_options.no_threads, or jobs
    bool gives_jobs() const { return gives_jobs_; }      // hk_context_options.job
    void give_job(void(HK_ABI* run)(void* data), void* data) const;
    // Captures calls to a file (hekla/capture.h); an empty path ends the capture.
    Status begin_capture(const std::string& path);
    std::shared_ptr<Capture> capture() const; // null: calls are not captured

    // Replaces the callbacks that the context was created with. invalid_argument: it was created with others;
    // failed_precondition: called from one of them.
    Status replace(const hk_context_callbacks& callbacks);
    // Returns whether calls and sessions should end.
    bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

    // A user of the context's device other than calls: a session.
    class Client {
    public:
        Client() = default;
        virtual ~Client() = default;
        Client(const Client&) = delete;
        Client& operator=(const Client&) = delete;
        // Ends, and frees everything on the device. Returns false on timeout.
        virtual bool shut_down(std::chrono::steady_clock::time_point until) = 0;
        // Returns whether this thread is running the client's code.
        virtual bool on_own_thread() const = 0;
        // Runs the client's code on this thread until it waits, if the context has no threads.
        virtual ResumeResult resume() = 0;
    };
    // Adds a client and calls `begin`. failed_precondition: the context is being destroyed, or its device released. The
    // client is shut down before that.
    Status add(const std::shared_ptr<Client>& client, const std::function<void()>& begin);
    // The objects that a client creates its queue with. failed_precondition: the context has no device, or it was
    // released.
    struct Device {
        gpu::Context gpu;
        program::RuntimeOptions options;
    };
    Result<Device> device();
    // Stores data compiled since the last call in the cache; logs a warning if that fails.
    void keep_caches(program::Runtime& runtime) const;

    // A call on the context, from begin() to its destructor.
    class Call {
    public:
        Call(Call&& other) noexcept : context_(std::move(other.context_)) {}
        Call& operator=(Call&&) = delete;
        ~Call();
        Context& context() const { return *context_; }
        // Returns the runtime. failed_precondition: the context has no device, or it was released.
        Result<program::Runtime*> runtime() const;
        // Returns a source that creates the runtime when it is needed. `this` outlives it.
        program::RuntimeSource device() const;

    private:
        friend class Context;
        explicit Call(std::shared_ptr<Context> context) : context_(std::move(context)) {}
        std::shared_ptr<Context> context_;
    };
    // Begins a call on the context with this handle. failed_precondition: another call is running, on another thread or
    // around this callback.
    static Result<Call> begin(hk_context handle);

    // Runs all clients until each waits for the host or time is up. failed_precondition: the context has threads.
    struct Pumped {
        int32_t clients = 0; // that have not ended
        int32_t waiting = 0; // of these, for the host
    };
    Result<Pumped> pump(std::chrono::nanoseconds time);

    // Ends everything that runs and releases the device. Returns false on timeout. failed_precondition: called from a
    // callback of something that runs, which can only end after the callback has returned.
    Result<bool> release(std::chrono::nanoseconds time);
    // Releases the device permanently: no call can begin any more. If nothing runs any more, plugins are released now,
    // although calls and sessions that ended may hold the context a little longer.
    Status close();

private:
    Context() = default;
    Result<program::Runtime*> runtime() const;
    // Creates the device of HK_DEVICE_ON_DEMAND, if it was not created yet. mutex_ is not held.
    Status create_device();
    Status set_runtime(gpu::Context device, const program::RuntimeOptions& options);
    Status open() const; // mutex_ is held, as for the next function
    std::vector<std::shared_ptr<Client>> clients() const;
    Log log_;
    std::shared_ptr<std::pmr::memory_resource> host_memory_; // null: the process's default
    plugin::Registry registry_ = plugin::Registry::scan({});
    std::unique_ptr<program::Runtime> runtime_;
    std::string device_name_;
    bool has_device_ = false;          // or had one before
    std::mutex creating_;              // held while create_ runs; locked before mutex_
    std::function<Status()> create_;   // HK_DEVICE_ON_DEMAND, until the device is created or released
    std::weak_ptr<const void> device_; // gpu::Device::presence(), while it is being released
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
    std::vector<std::weak_ptr<Client>> clients_;
};

} // namespace hekla::api
