// hekla-describe: runs plugins for a host that keeps them out of its own process and starts this program
// (plugin/process/out_of_process_plugins.hpp). It does not link Vulkan.
#include "base/crash_signals.hpp"
#include "base/host_connection.hpp"
#include "plugin/process/messages.hpp"
#include "plugin/process/serve.hpp"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

namespace {

constexpr int kUsage = 2, kOtherHost = 3;

// After a crash, tells the host whether memory had run out.
void tell_why() {
    constexpr std::size_t kProbe = std::size_t{16} << 20;
    if (hekla::allocation_fails(kProbe))
        hekla::Channel::send_at_crash(hekla::ChildProcess::kSocket,
                                      static_cast<uint32_t>(hekla::plugin::MessageKind::out_of_memory));
}

} // namespace

int main(int count, char** words) {
    uint64_t memory = 0;
    const std::string_view given = count == 3 ? words[2] : "";
    const auto [end, problem] = std::from_chars(given.data(), given.data() + given.size(), memory);
    if (given.empty() || problem != std::errc() || end != given.data() + given.size() || !hekla::started_by_host()) {
        std::fputs("hekla-describe: a part of Hekla, which starts it to load plugins in a process of their own; to see "
                   "what plugins describe use `hekla describe`\n",
                   stderr);
        return kUsage;
    }
    if (std::strcmp(words[1], hekla::plugin::kProtocol) != 0) {
        std::fprintf(stderr, "this is '%s', the host asked for '%s': install both from one build\n",
                     hekla::plugin::kProtocol, words[1]);
        return kOtherHost;
    }
    hekla::report_crashes(tell_why);
    hekla::Result<hekla::HostConnection> host = hekla::connect_to_host(memory);
    return host.ok() ? hekla::plugin::serve(std::move(host->socket), std::move(host->memory)) : 1;
}
