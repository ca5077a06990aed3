// Exchanges that take as long as over a slower link than this one: how a training would be over another network.
#pragma once

#include "base/status.hpp"
#include "hekla/communicator.h"

#include <chrono>
#include <map>
#include <string>

namespace hekla::app {

struct Link {
    double bytes_per_second = 0.0; // 0: as fast as it is
    double latency = 0.0;          // seconds
};

// Parses "25gbit,20us": a rate in kbit, mbit or gbit per second, and, after a comma, a latency in us or ms.
Result<Link> parse_link(const std::string& text);

// Passes exchanges on to another communicator, one after the other. Each takes at least the latency, and the time of
// the larger of the bytes that the rank sends and receives. Thread: that of the rank.
class SlowLink {
public:
    // `inner` must outlive this.
    SlowLink(const hk_communicator& inner, const Link& link);
    SlowLink(const SlowLink&) = delete;
    SlowLink& operator=(const SlowLink&) = delete;
    const hk_communicator* communicator() const { return &seam_; }

private:
    using Clock = std::chrono::steady_clock;
    struct Exchange {
        Clock::time_point due;
        bool done = false; // by the inner communicator
    };
    const hk_communicator& inner_;
    Link link_;
    hk_communicator seam_{};
    Clock::time_point free_{};
    std::map<uint64_t, Exchange> pending_;
};

} // namespace hekla::app
