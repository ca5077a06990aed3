// API functions whose calls are captured: their arguments as JSON, and the capture around their body.
#pragma once

#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/call_fields.hpp"
#include "api/capture.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace hekla::api {

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

// Writes today's date for a template that was given none, so that a replay makes the same prompts on another day.
void record_date(nlohmann::ordered_json& fields);

// Returns {} for options that were refused.
template<class Options>
nlohmann::ordered_json fields_of(const Options* options) {
    if (!check(options).ok()) return nlohmann::ordered_json::object();
    FieldWriter writer;
    Options copy = *options;
    visit_fields(writer, copy);
    nlohmann::ordered_json fields = writer.take();
    record_date(fields);
    return fields;
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

} // namespace hekla::api
