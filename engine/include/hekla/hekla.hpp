// hekla.h and session.h for C++17 and newer: objects that free what they own, and strings and functions of the standard
// library. Header-only, over the C functions. Only the standard library throws. The options are those of options.hpp,
// which is generated; objects, which own handles and what callbacks write to, are written by hand.
//
//     hk::Error error;
//     hk::Context context = hk::Context::create({}, error);
//     hk::Generation text = context.generate({.model = "out/quickstart", .prompts = {"Once"}}, error);
//     while (text.state() < hk::State::idle) { draw(); text.advance(2000, error); std::cout << text.taken(); }
#ifndef HEKLA_HEKLA_HPP
#define HEKLA_HEKLA_HPP

#include "hekla/hekla.h"
#include "hekla/options.hpp"
#include "hekla/session.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hk {

// The error of the last call that was given this object. One thread at a time.
class Error {
public:
    Error() : error_(hk_error_create()) {}
    ~Error() { hk_error_destroy(error_); }
    Error(const Error&) = delete;
    Error& operator=(const Error&) = delete;

    // Returns whether the last call failed.
    explicit operator bool() const { return failed_; }
    int32_t code() const { return failed_ ? hk_error_code(error_) : HK_OK; }
    std::string message() const { return failed_ ? std::string(view(hk_error_message(error_))) : std::string(); }

    // Takes the result of a C function that was given c(). Returns whether it succeeded.
    bool take(int32_t code) {
        failed_ = code != HK_OK;
        return !failed_;
    }
    hk_error* c() const { return error_; }

private:
    hk_error* error_;
    bool failed_ = false;
};

// HK_SESSION_*.
enum class State : int32_t {
    preparing = HK_SESSION_PREPARING,
    working = HK_SESSION_WORKING,
    idle = HK_SESSION_IDLE,
    done = HK_SESSION_DONE,
    failed = HK_SESSION_FAILED,
    released = HK_SESSION_RELEASED,
};

// An object of the C API that is destroyed with this one. Null after an error, and after it was moved from.
template<class Handle, void (*destroy)(Handle)>
class Owner {
public:
    Owner() = default;
    explicit Owner(Handle handle) : handle_(handle) {}
    ~Owner() { reset(); }
    Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, Handle{0})) {}
    Owner& operator=(Owner&& other) noexcept {
        if (this != &other) {
            reset();
            handle_ = std::exchange(other.handle_, Handle{0});
        }
        return *this;
    }
    explicit operator bool() const { return handle_.id != 0; }
    Handle c() const { return handle_; }
    void reset() { destroy(std::exchange(handle_, Handle{0})); }

private:
    Handle handle_{0};
};

// A LoRA adapter for the slots of generations.
using Adapter = Owner<hk_loaded_adapter, hk_adapter_destroy>;

// A session.
class Session : public Owner<hk_session, hk_session_destroy> {
public:
    using Owner::Owner;

    // Describes the session, as soon as it has prepared or the time is up. HK_SESSION_FAILED where this is null.
    hk_session_info wait(uint64_t nanoseconds) const {
        hk_session_info info{};
        info.struct_size = sizeof info;
        if (hk_session_wait(c(), nanoseconds, &info, nullptr) != HK_OK) info.state = HK_SESSION_FAILED;
        return info;
    }
    State state() const { return static_cast<State>(wait(0).state); }
    // Runs up to `microseconds` of the session's work on the device.
    hk_advanced advance(double microseconds, Error& error) const {
        hk_advance how{};
        how.microseconds = microseconds;
        return advance(how, error);
    }
    hk_advanced advance(hk_advance how, Error& error) const {
        how.struct_size = sizeof how;
        hk_advanced out{};
        out.struct_size = sizeof out;
        error.take(hk_session_advance(c(), &how, &out, error.c()));
        return out;
    }
    void stop() const { hk_session_stop(c(), nullptr); }
    // Evicts the device memory; hk_session_release_memory. Returns false after an error.
    bool release_memory(uint64_t nanoseconds, Error& error) const {
        return error.take(hk_session_release_memory(c(), nanoseconds, error.c()));
    }
    bool restore_memory(Error& error) const { return error.take(hk_session_restore_memory(c(), error.c())); }
};

// A session that generates; the text is kept here until it is taken.
class Generation {
public:
    Generation() = default;
    Generation(Generation&&) noexcept = default;
    Generation& operator=(Generation&& other) noexcept {
        session_ = std::move(other.session_); // the old session ends first: its thread writes to heard_
        heard_ = std::move(other.heard_);
        return *this;
    }
    explicit operator bool() const { return static_cast<bool>(session_); }
    const Session& session() const { return session_; }
    State state() const { return session_.state(); }
    hk_advanced advance(double microseconds, Error& error) const { return session_.advance(microseconds, error); }
    // Returns the text generated for one prompt since the last call. [any-thread]
    std::string taken(uint64_t row = 0) const {
        if (heard_ == nullptr) return {};
        const std::lock_guard<std::mutex> guard(heard_->mutex);
        return row < heard_->rows.size() ? std::exchange(heard_->rows[row], std::string()) : std::string();
    }
    // Sets the next prompts, as many as the first time. Returns false after an error.
    bool prompt(const std::vector<std::string>& prompts, Error& error) const {
        std::vector<hk_string> views;
        for (const std::string& one : prompts) views.push_back(view(one));
        return error.take(hk_session_prompt(session_.c(), views.data(), views.size(), error.c()));
    }
    // Puts an adapter into a slot that no row uses, a null one to empty it. Returns false after an error.
    bool put_adapter(int32_t slot, const Adapter& adapter, Error& error) const {
        return error.take(hk_session_adapter_put(session_.c(), slot, adapter.c(), error.c()));
    }
    // Sets the slot of a row from its next token on, -1 for none. flags: HK_ADAPTER_*. Returns false after an error.
    bool use_slot(uint64_t row, int32_t slot, Error& error, double scale = 1.0,
                  int32_t flags = HK_ADAPTER_FROM_START) const {
        return error.take(hk_session_adapter_row(session_.c(), row, slot, scale, flags, error.c()));
    }

private:
    friend class Context;
    struct Heard {
        std::mutex mutex;
        std::vector<std::string> rows;
    };
    std::unique_ptr<Heard> heard_; // outlives the session, whose thread writes to it
    Session session_;
};

// A session that trains.
class Training {
public:
    Training() = default;
    Training(Training&&) noexcept = default;
    Training& operator=(Training&& other) noexcept {
        session_ = std::move(other.session_); // the old session ends first: its thread calls functions of options_
        options_ = std::move(other.options_);
        return *this;
    }
    explicit operator bool() const { return static_cast<bool>(session_); }
    const Session& session() const { return session_; }
    State state() const { return session_.state(); }
    hk_advanced advance(double microseconds, Error& error) const { return session_.advance(microseconds, error); }
    void stop() const { session_.stop(); }

private:
    friend class Context;
    std::unique_ptr<TrainingOptions> options_; // outlives the session
    Session session_;
};

// Plugins and a device. Null after an error, and after it was moved from.
class Context {
public:
    Context() = default;
    static Context create(ContextOptions options, Error& error) {
        Context context;
        context.options_ = std::make_unique<ContextOptions>(std::move(options));
        ContextOptions& o = *context.options_;
        Views views;
        hk_context_options c{};
        c.struct_size = sizeof c;
        fill(c, o, views);
        const hk_string own_plugins = hk_plugin_folder();
        c.plugin_folders = o.plugin_folders.empty() ? &own_plugins : views.of(o.plugin_folders);
        c.plugin_folder_count = o.plugin_folders.empty() ? 1 : o.plugin_folders.size();
        c.device_kind = o.without_device ? HK_DEVICE_NONE : o.vulkan != nullptr ? HK_DEVICE_WRAPPED : HK_DEVICE_OWN;
        error.take(hk_context_create(&c, &context.context_, error.c()));
        return context;
    }
    ~Context() { hk_context_destroy(context_); }
    Context(Context&& other) noexcept
        : options_(std::move(other.options_)), context_(std::exchange(other.context_, hk_context{0})) {}
    Context& operator=(Context&& other) noexcept {
        std::swap(options_, other.options_);
        std::swap(context_, other.context_);
        return *this;
    }

    explicit operator bool() const { return context_.id != 0; }
    hk_context c() const { return context_; }
    std::string device() const { return std::string(view(hk_context_device(context_))); }
    // Runs the sessions of a context with no_threads on this thread: hk_context_pump.
    hk_pumped pump(uint64_t nanoseconds, Error& error) const {
        hk_pumped out{};
        out.struct_size = sizeof out;
        error.take(hk_context_pump(context_, nanoseconds, &out, error.c()));
        return out;
    }
    // Releases the device: hk_device_release. Returns false after an error.
    bool release_device(uint64_t nanoseconds, Error& error) const {
        return error.take(hk_device_release(context_, nanoseconds, error.c()));
    }

    // Reads a LoRA adapter for the model of a folder; null after an error.
    Adapter open_adapter(const std::string& folder, const std::string& model, Error& error) const {
        hk_loaded_adapter adapter{0};
        if (!error.take(hk_adapter_open(context_, view(folder), view(model), &adapter, error.c()))) return {};
        return Adapter(adapter);
    }

    // Starts a generation; null after an error.
    Generation generate(const GenerationOptions& options, Error& error) const {
        Generation made;
        made.heard_ = std::make_unique<Generation::Heard>();
        made.heard_->rows.resize(options.prompts.empty() ? 1 : options.prompts.size());
        Views views;
        hk_generate_options c{};
        hk_generate_defaults(&c);
        fill(c, options, views);
        c.greedy = options.temperature == 0.0 ? 1 : 0;
        c.temperature = options.temperature == 0.0 ? 1.0 : options.temperature;
        std::vector<std::string> prompt_adapters = options.prompt_adapters;
        if (!prompt_adapters.empty()) prompt_adapters.resize(options.prompts.size()); // missing names: none
        c.prompt_adapters = views.of(prompt_adapters);
        c.user = made.heard_.get();
        c.text = [](void* user, uint64_t row, hk_string text) {
            auto& heard = *static_cast<Generation::Heard*>(user);
            const std::lock_guard<std::mutex> guard(heard.mutex);
            heard.rows[static_cast<std::size_t>(row)].append(view(text));
        };
        hk_session_options own{};
        own.struct_size = sizeof own;
        own.length = options.length;
        hk_session session{0};
        if (error.take(hk_session_generate(context_, &c, &own, &session, error.c()))) made.session_ = Session(session);
        return made;
    }

    // Starts a training; null after an error.
    Training train(TrainingOptions options, Error& error) const {
        Training made;
        made.options_ = std::make_unique<TrainingOptions>(std::move(options));
        Views views;
        hk_train_options c{};
        c.struct_size = sizeof c;
        fill(c, *made.options_, views);
        hk_session session{0};
        if (error.take(hk_session_train(context_, &c, nullptr, &session, error.c()))) made.session_ = Session(session);
        return made;
    }

private:
    std::unique_ptr<ContextOptions> options_; // outlives the context, which logs through it
    hk_context context_{0};
};

} // namespace hk

#endif
