#include "data/read_options.hpp"

namespace hekla::data {

Status StopPoll::check() const {
    if (!asked_) return {};
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return {};
    next_ = now + std::chrono::milliseconds(20);
    return asked_() ? Status(Code::cancelled, "stopped while reading data") : Status();
}

} // namespace hekla::data
