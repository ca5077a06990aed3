#include "base/stop_poll.hpp"

#include <string>

namespace hekla {

Status StopPoll::check_now(std::string_view work) const {
    return stopped() ? Status(Code::cancelled, "stopped while " + std::string(work)) : Status();
}

Status StopPoll::check(std::string_view work) const {
    if (!stop_) return {};
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return {};
    next_ = now + std::chrono::milliseconds(20);
    return check_now(work);
}

} // namespace hekla
