// Implementation of hekla/capture.h: the file to which calls are captured.
#pragma once

#include "base/file_handle.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "hekla/hekla.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

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
