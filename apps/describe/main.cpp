// hekla-describe: runs plugins for a host that keeps them out of its own process and starts this program
// (plugin/process/out_of_process_plugins.hpp). It does not link Vulkan.
#include "plugin/process/messages.hpp"
#include "plugin/process/serve.hpp"

#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace {

using hekla::ChildProcess;

constexpr int kUsage = 2, kOtherHost = 3;

// After a crash, reports whether memory had run out. Calls only async-signal-safe functions.
extern "C" void tell_why(int signal) {
    constexpr std::size_t kProbe = std::size_t{16} << 20;
    void* const probe = ::mmap(nullptr, kProbe, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED) {
        const struct {
            uint32_t magic = hekla::Channel::kMagic;
            uint32_t kind = static_cast<uint32_t>(hekla::plugin::MessageKind::out_of_memory);
            uint64_t size = 0;
        } message;
        [[maybe_unused]] const ssize_t sent =
            ::send(ChildProcess::kSocket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    ::raise(signal); // SA_RESETHAND: the default action now applies
}

void watch_crashes() {
    static std::array<char, 1 << 14> stack;
    stack_t alternate{};
    alternate.ss_sp = stack.data();
    alternate.ss_size = stack.size();
    ::sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_handler = tell_why;
    action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::sigaction(signal, &action, nullptr);
}

// A plugin that never returns must not outlive the host.
void end_with_host() {
    std::thread([] {
        pollfd host{ChildProcess::kSocket, POLLRDHUP, 0};
        while (::poll(&host, 1, -1) <= 0) {}
        std::this_thread::sleep_for(std::chrono::seconds(2)); // lets the process end by itself first
        ::_exit(0);
    }).detach();
}

void limit(uint64_t memory_bytes) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // the sanitizers reserve terabytes of address space
    const rlimit most{memory_bytes, memory_bytes};
    if (memory_bytes > 0) ::setrlimit(RLIMIT_AS, &most);
#else
    (void)memory_bytes;
#endif
}

} // namespace

int main(int count, char** words) {
    uint64_t memory = 0;
    const std::string_view given = count == 3 ? words[2] : "";
    const auto [end, problem] = std::from_chars(given.data(), given.data() + given.size(), memory);
    int type = 0;
    socklen_t size = sizeof type;
    if (given.empty() || problem != std::errc() || end != given.data() + given.size() ||
        ::getsockopt(ChildProcess::kSocket, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
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
    ::close_range(ChildProcess::kMemory + 1, ~0u, 0); // close all other descriptors of the host
    for (const int descriptor : {ChildProcess::kSocket, ChildProcess::kMemory})
        ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    limit(memory);
    watch_crashes();
    end_with_host();
    hekla::Result<hekla::SharedMemory> shared = hekla::SharedMemory::of(hekla::FileHandle(ChildProcess::kMemory));
    if (!shared.ok()) return 1;
    return hekla::plugin::serve(hekla::FileHandle(ChildProcess::kSocket), shared.take());
}
