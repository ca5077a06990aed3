// Implementation of hekla/capture.h: the file to which calls are captured.
#pragma once

#include "api/checks.hpp"
#include "base/file_handle.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "hekla/hekla.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace hekla::api {

// A file of captured calls. Thread: any.
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
    Capture(FileHandle file, const Log& log) : file_(std::move(file)), log_(log) {}
    void write(const nlohmann::ordered_json& line);

    std::mutex mutex_;
    FileHandle file_; // not open after a failed write
    Log log_;
    Clock::time_point begun_ = Clock::now();
};

// Options whose callbacks write to the capture before they call the host's. They must outlive the call.
template<class O>
class Heard {
public:
    Heard(const O* given, std::shared_ptr<Capture> capture)
        : given_(given), capture_(capture != nullptr && check(given).ok() ? std::move(capture) : nullptr) {
        if (capture_ == nullptr) return;
        options_ = *given;
        options_.user = this;
        hear();
    }
    Heard(const Heard&) = delete;
    Heard& operator=(const Heard&) = delete;
    const O& given() const { return *given_; }
    const O* options() const { return capture_ != nullptr ? &options_ : given_; }

private:
    void hear(); // sets the callbacks of options_
    const O* given_;
    std::shared_ptr<Capture> capture_; // null: not captured
    O options_{};
};
template<>
void Heard<hk_train_options>::hear();
template<>
void Heard<hk_generate_options>::hear();

} // namespace hekla::api
