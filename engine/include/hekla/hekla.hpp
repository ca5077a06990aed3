// hekla.h and session.h for C++17 and newer: objects that free what they own, and strings and functions of the standard
// library. Header-only, over the C functions. Only the standard library throws.
//
//     hk::Error error;
//     hk::Context context = hk::Context::create({}, error);
//     hk::Generation text = context.generate({.model = "out/quickstart", .prompts = {"Once"}}, error);
//     while (text.state() < hk::State::idle) { draw(); text.advance(2000, error); std::cout << text.taken(); }
#ifndef HEKLA_HEKLA_HPP
#define HEKLA_HEKLA_HPP

#include "hekla/hekla.h"
#include "hekla/session.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hk {

// Convert between strings; the result borrows.
inline hk_string view(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view view(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

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

// A session that is destroyed with this object. Null after an error, and after it was moved from.
class Session {
public:
    Session() = default;
    explicit Session(hk_session session) : session_(session) {}
    ~Session() { reset(); }
    Session(Session&& other) noexcept : session_(std::exchange(other.session_, hk_session{0})) {}
    Session& operator=(Session&& other) noexcept {
        if (this != &other) {
            reset();
            session_ = std::exchange(other.session_, hk_session{0});
        }
        return *this;
    }

    explicit operator bool() const { return session_.id != 0; }
    hk_session c() const { return session_; }
    void reset() { hk_session_destroy(std::exchange(session_, hk_session{0})); }

    // Describes the session, as soon as it has prepared or the time is up. HK_SESSION_FAILED where this is null.
    hk_session_info wait(uint64_t nanoseconds) const {
        hk_session_info info{};
        info.struct_size = sizeof info;
        if (hk_session_wait(session_, nanoseconds, &info, nullptr) != HK_OK) info.state = HK_SESSION_FAILED;
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
        error.take(hk_session_advance(session_, &how, &out, error.c()));
        return out;
    }
    void stop() const { hk_session_stop(session_, nullptr); }
    // Evicts the device memory; hk_session_release_memory. Returns false after an error.
    bool release_memory(uint64_t nanoseconds, Error& error) const {
        return error.take(hk_session_release_memory(session_, nanoseconds, error.c()));
    }
    bool restore_memory(Error& error) const { return error.take(hk_session_restore_memory(session_, error.c())); }

private:
    hk_session session_{0};
};

// A LoRA adapter for the slots of generations, destroyed with this object. Null after an error, and after it was moved
// from.
class Adapter {
public:
    Adapter() = default;
    explicit Adapter(hk_loaded_adapter adapter) : adapter_(adapter) {}
    ~Adapter() { reset(); }
    Adapter(Adapter&& other) noexcept : adapter_(std::exchange(other.adapter_, hk_loaded_adapter{0})) {}
    Adapter& operator=(Adapter&& other) noexcept {
        if (this != &other) {
            reset();
            adapter_ = std::exchange(other.adapter_, hk_loaded_adapter{0});
        }
        return *this;
    }

    explicit operator bool() const { return adapter_.id != 0; }
    hk_loaded_adapter c() const { return adapter_; }
    void reset() { hk_adapter_destroy(std::exchange(adapter_, hk_loaded_adapter{0})); }

private:
    hk_loaded_adapter adapter_{0};
};

// How to generate; see hk_generate_options.
struct GenerationOptions {
    // Folder or file of a model. Required.
    std::string model;
    // One text per prompt. Empty: one row without a prompt.
    std::vector<std::string> prompts;
    // Most tokens to generate per row, 1 or more.
    int64_t max_new_tokens = 128;
    // Divides the logits before sampling; 0: always the most likely token.
    double temperature = 1.0;
    // Samples from the k most likely tokens; 0: all.
    int64_t top_k = 0;
    // Samples from the most likely tokens whose probabilities add up to this, above 0 to 1; 1: all.
    double top_p = 1.0;
    // Seed of the sampling.
    uint64_t seed = 0;
    // Tokens that a row has room for (hk_session_options.length); 0: what the first prompts need.
    int64_t length = 0;
    // Trained adapters on the model: "NAME=FOLDER" or "NAME=FOLDER:SCALE", and "combine.KEY=VALUE"
    // (hk_generate_options.adapters).
    std::vector<std::string> adapters;
    // The name of each prompt's adapter, "" for none. Empty: all adapters act on all prompts.
    std::vector<std::string> prompt_adapters;
    // Slots for LoRA adapters that rows can exchange (hk_generate_options.adapter_slots); 0: none.
    int32_t adapter_slots = 0;
    // Largest rank of an adapter in a slot; 0: that of `adapters`, or 16 without any.
    int32_t adapter_rank = 0;
    // Ends of the names of modules with slots, with commas between them; "": see hk_generate_options.adapter_targets.
    std::string adapter_targets;
    // Prompts are JSON lists of messages for this template: hk_generate_options.chat_template. "": prompts are texts.
    std::string chat_template;
    // The date that the template prints (hk_generate_options.chat_date); "": now.
    std::string chat_date;
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

// What to train; see hk_train_options. The functions are called on the session's thread; they may be empty.
struct TrainingOptions {
    // Path of a TOML recipe. Required.
    std::string recipe;
    // Keys of the recipe with other values: "train.max_steps=100".
    std::vector<std::string> overrides;
    // Called after every step.
    std::function<void(const hk_train_step&)> step;
    // Called after every evaluation.
    std::function<void(const hk_train_evaluation&)> evaluation;
    // Takes lines about the run.
    std::function<void(std::string_view)> message;
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

// How a context is made; see hk_context_options.
struct ContextOptions {
    // Folders that are searched for plugins. Empty: hk_plugin_folder().
    std::vector<std::string> plugin_folders;
    // Device that Hekla creates: an index, or a part of a name. "": the best one.
    std::string device;
    // The host's device; null: Hekla creates one.
    const hk_vulkan_device* vulkan = nullptr;
    // Whether the context has no device (HK_DEVICE_NONE).
    bool without_device = false;
    // Folder for compiled kernels. "": nothing is written.
    std::string cache_folder;
    // Takes the engine's messages, on any thread. May be empty.
    std::function<void(int32_t severity, std::string_view message)> log;
    // Whether Hekla starts no thread: sessions run in Context::pump().
    bool no_threads = false;
    // Makes the host call run(data) once, on any thread: hk_context_options.job. May be empty.
    std::function<void(void(HK_ABI* run)(void* data), void* data)> job;
};

// Plugins and a device. Null after an error, and after it was moved from.
class Context {
public:
    Context() = default;
    static Context create(ContextOptions options, Error& error) {
        Context context;
        context.options_ = std::make_unique<ContextOptions>(std::move(options));
        const ContextOptions& o = *context.options_;
        std::vector<hk_string> folders;
        for (const std::string& folder : o.plugin_folders) folders.push_back(view(folder));
        if (folders.empty()) folders.push_back(hk_plugin_folder());
        hk_context_options c{};
        c.struct_size = sizeof c;
        c.plugin_folders = folders.data();
        c.plugin_folder_count = folders.size();
        c.device = view(o.device);
        c.cache_folder = view(o.cache_folder);
        c.vulkan = o.vulkan;
        c.device_kind = o.without_device ? HK_DEVICE_NONE : o.vulkan != nullptr ? HK_DEVICE_WRAPPED : HK_DEVICE_OWN;
        c.user = context.options_.get();
        if (o.log)
            c.log = [](void* user, int32_t severity, hk_string message) {
                static_cast<const ContextOptions*>(user)->log(severity, view(message));
            };
        c.no_threads = o.no_threads ? 1 : 0;
        if (o.job)
            c.job = [](void* user, void(HK_ABI * run)(void*), void* data) {
                static_cast<const ContextOptions*>(user)->job(run, data);
            };
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
        std::vector<hk_string> prompts, adapters, prompt_adapters;
        for (const std::string& prompt : options.prompts) prompts.push_back(view(prompt));
        for (const std::string& adapter : options.adapters) adapters.push_back(view(adapter));
        for (const std::string& name : options.prompt_adapters) prompt_adapters.push_back(view(name));
        prompt_adapters.resize(options.prompt_adapters.empty() ? 0 : prompts.size()); // missing names: none
        hk_generate_options c{};
        hk_generate_defaults(&c);
        c.model = view(options.model);
        c.prompts = prompts.data();
        c.prompt_count = prompts.size();
        c.max_new_tokens = options.max_new_tokens;
        c.greedy = options.temperature == 0.0 ? 1 : 0;
        c.temperature = options.temperature == 0.0 ? 1.0 : options.temperature;
        c.top_k = options.top_k;
        c.top_p = options.top_p;
        c.seed = options.seed;
        c.adapters = adapters.data();
        c.adapter_count = adapters.size();
        c.prompt_adapters = prompt_adapters.empty() ? nullptr : prompt_adapters.data();
        c.adapter_slots = options.adapter_slots;
        c.adapter_rank = options.adapter_rank;
        c.adapter_targets = view(options.adapter_targets);
        c.chat_template = view(options.chat_template);
        c.chat_date = view(options.chat_date);
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
        const TrainingOptions& o = *made.options_;
        std::vector<hk_string> overrides;
        for (const std::string& one : o.overrides) overrides.push_back(view(one));
        hk_train_options c{};
        c.struct_size = sizeof c;
        c.recipe = view(o.recipe);
        c.overrides = overrides.data();
        c.override_count = overrides.size();
        c.user = made.options_.get();
        if (o.step)
            c.step = [](void* user, const hk_train_step* step) {
                static_cast<const TrainingOptions*>(user)->step(*step);
            };
        if (o.evaluation)
            c.evaluation = [](void* user, const hk_train_evaluation* evaluation) {
                static_cast<const TrainingOptions*>(user)->evaluation(*evaluation);
            };
        if (o.message)
            c.message = [](void* user, hk_string message) {
                static_cast<const TrainingOptions*>(user)->message(view(message));
            };
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
