#include "slow_link.hpp"

#include "base/read_real.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace hekla::app {

Result<Link> parse_link(const std::string& text) {
    const Status wrong = invalid_argument(
        fmt::format("--link {}: expected a rate in kbit, mbit or gbit, and optionally a latency in us or ms, like "
                    "25gbit,20us",
                    text));
    const std::size_t comma = text.find(',');
    const auto number = [&](const std::string& part, std::initializer_list<std::pair<const char*, double>> units) {
        const char* const last = part.data() + part.size();
        double value = 0.0;
        const auto [end, error] = read_real(part.data(), last, value);
        for (const auto& [unit, factor] : units)
            if (error == std::errc() && std::string(end, last) == unit && value >= 0.0) return value * factor;
        return -1.0;
    };
    Link link;
    link.bytes_per_second = number(text.substr(0, comma), {{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}});
    if (!(link.bytes_per_second > 0.0)) return wrong;
    if (comma != std::string::npos) {
        link.latency = number(text.substr(comma + 1), {{"us", 1e-6}, {"ms", 1e-3}});
        if (link.latency < 0.0) return wrong;
    }
    return link;
}

SlowLink::SlowLink(const hk_communicator& inner, const Link& link) : inner_(inner), link_(link), seam_(inner) {
    seam_.user = this;
    seam_.begin = [](void* user, uint64_t number, const hk_exchange_part* parts, hk_string* why) {
        auto& self = *static_cast<SlowLink*>(user);
        uint64_t sent = 0, received = 0;
        for (int32_t r = 0; r < self.seam_.size; ++r) {
            if (r == self.seam_.rank) continue;
            sent += parts[r].send_bytes;
            received += parts[r].receive_bytes;
        }
        const double seconds =
            self.link_.latency + static_cast<double>(std::max(sent, received)) / self.link_.bytes_per_second;
        self.free_ = std::max(self.free_, Clock::now()) +
                     std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        self.pending_[number].due = self.free_;
        return self.inner_.begin(self.inner_.user, number, parts, why);
    };
    seam_.test = [](void* user, uint64_t number, int32_t* done, int32_t* lost, hk_string* why) -> int32_t {
        auto& self = *static_cast<SlowLink*>(user);
        *done = 0;
        *lost = -1;
        Exchange& exchange = self.pending_[number];
        if (!exchange.done) {
            int32_t inner_done = 0;
            const int32_t code = self.inner_.test(self.inner_.user, number, &inner_done, lost, why);
            if (code != HK_OK || *lost >= 0) return code;
            exchange.done = inner_done != 0;
        }
        if (exchange.done && Clock::now() >= exchange.due) {
            self.pending_.erase(number);
            *done = 1;
        }
        return HK_OK;
    };
    seam_.fail = [](void* user, hk_string why) {
        const hk_communicator& inner = static_cast<SlowLink*>(user)->inner_;
        inner.fail(inner.user, why);
    };
}

} // namespace hekla::app
