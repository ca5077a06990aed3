#include "base/status.hpp"

namespace hekla {

const char* code_name(Code code) {
    switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid argument";
    case Code::not_found: return "not found";
    case Code::unsupported: return "unsupported";
    case Code::failed_precondition: return "failed precondition";
    case Code::out_of_memory: return "out of memory";
    case Code::io: return "input/output error";
    case Code::corrupt: return "corrupt data";
    case Code::device_lost: return "device lost";
    case Code::cancelled: return "cancelled";
    case Code::internal: return "internal error";
    }
    return "unknown error";
}

Status::Status(Code code, std::string message)
    : detail_(code == Code::ok ? nullptr : std::make_unique<Detail>(Detail{code, std::move(message)})) {}

Status::Status(const Status& other) : detail_(other.detail_ ? std::make_unique<Detail>(*other.detail_) : nullptr) {}

Status& Status::operator=(const Status& other) {
    if (this != &other) detail_ = other.detail_ ? std::make_unique<Detail>(*other.detail_) : nullptr;
    return *this;
}

const std::string& Status::message() const {
    static const std::string& kEmpty = *new std::string; // never destroyed: threads may use it while the process exits
    return detail_ ? detail_->message : kEmpty;
}

Status Status::with_context(const std::string& context) const {
    return ok() ? Status() : Status(code(), context + ": " + message());
}

Status invalid_argument(std::string message) { return {Code::invalid_argument, std::move(message)}; }
Status not_found(std::string message) { return {Code::not_found, std::move(message)}; }
Status unsupported(std::string message) { return {Code::unsupported, std::move(message)}; }
Status failed_precondition(std::string message) { return {Code::failed_precondition, std::move(message)}; }
Status out_of_memory(std::string message) { return {Code::out_of_memory, std::move(message)}; }
Status io_error(std::string message) { return {Code::io, std::move(message)}; }
Status corrupt(std::string message) { return {Code::corrupt, std::move(message)}; }
Status internal_error(std::string message) { return {Code::internal, std::move(message)}; }

} // namespace hekla
