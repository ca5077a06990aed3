// Implementation of hekla/capture.h: the file that calls are captured in.
#pragma once

#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/call_fields.hpp"
#include "base/log.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

namespace hekla::api {

// Thread: any.
class Capture {
public:
    using Clock = std::chrono::steady_clock;
    // Opens the file and writes its first line. Errors: io.
    static Result<std::shared_ptr<Capture>> begin(const std::string& path, const nlohmann::ordered_json& first,
                                                  const Log& log);
    // Writes a call with its result. `session`: its handle; 0: a call on the context.
    void call(const char* name, uint64_t session, nlohmann::ordered_json arguments, Clock::time_point begun,
              int32_t code, const hk_error* error);
    // Write an output of a call or session.
    void loss(uint64_t session, int64_t step, double loss);
    void text(uint64_t session, uint64_t row, hk_string piece);

private:
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    Capture(std::FILE* file, const Log& log) : file_(file), log_(log) {}
    void write(const nlohmann::ordered_json& line);

    std::mutex mutex_;
    std::unique_ptr<std::FILE, Close> file_; // null: it cannot be written any more
    Log log_;
    Clock::time_point begun_ = Clock::now();
};

// A visitor of visit_fields() that writes JSON.
class FieldWriter {
public:
    static constexpr bool reads() { return false; }
    template<class T>
    void operator()(const char* name, const T& value) {
        json_[name] = value;
    }
    void operator()(const char* name, const hk_string& value) { json_[name] = string_of(value); }
    void list(const char* name, const hk_string* const& strings, uint64_t count) {
        json_[name] = texts(strings, count);
    }
    void rows(const char* name, const int32_t* const* const& rows, const uint64_t* const& lengths, uint64_t count) {
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        for (uint64_t i = 0; i < count; ++i) all.push_back(std::vector<int32_t>(rows[i], rows[i] + lengths[i]));
        json_[name] = std::move(all);
    }
    nlohmann::ordered_json take() { return std::move(json_); }

private:
    nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
};

// Returns {} for options that were refused.
template<class Options>
nlohmann::ordered_json fields_of(const Options* options) {
    if (!check(options).ok()) return nlohmann::ordered_json::object();
    FieldWriter writer;
    Options copy = *options;
    visit_fields(writer, copy);
    return writer.take();
}

// Runs the body of an API function, and captures it where `capture` is not null. arguments() returns JSON and session()
// the session's handle; both are called after the body.
template<class Arguments, class Session, class F>
int32_t captured(const std::shared_ptr<Capture>& capture, const char* name, hk_error* error, const Arguments& arguments,
                 const Session& session, F&& f) noexcept {
    const Capture::Clock::time_point begun = Capture::Clock::now();
    const int32_t code = guarded(error, std::forward<F>(f));
    if (capture != nullptr)
        guarded(nullptr, [&]() -> Status {
            capture->call(name, session(), arguments(), begun, code, error);
            return {};
        });
    return code;
}

// Returns the capture of a context; null: it is not captured, or does not exist.
std::shared_ptr<Capture> capture_of(hk_context context) noexcept;

// Runs a call on a context: checks the options first.
template<class Options, class F>
int32_t captured_call(hk_context context, const char* name, const Options* options, hk_error* error, F&& f) noexcept {
    return captured(
        capture_of(context), name, error, [&] { return fields_of(options); }, [] { return uint64_t{0}; },
        [&]() -> Status {
            HK_TRY(check(options));
            return f();
        });
}

// Options whose callbacks write to the capture before they call the host's. They must outlive the call.
class HeardTraining {
public:
    HeardTraining(const hk_train_options* given, std::shared_ptr<Capture> capture);
    const hk_train_options* options() const { return capture_ != nullptr ? &heard_ : given_; }

private:
    const hk_train_options* given_;
    std::shared_ptr<Capture> capture_; // null: not captured
    hk_train_options heard_{};
};
class HeardGeneration {
public:
    HeardGeneration(const hk_generate_options& given, std::shared_ptr<Capture> capture);
    const hk_generate_options& options() const { return capture_ != nullptr ? heard_ : given_; }

private:
    const hk_generate_options& given_;
    std::shared_ptr<Capture> capture_;
    hk_generate_options heard_{};
};

} // namespace hekla::api
