#include "base/host_connection.hpp"

#include "base/thread.hpp"

#include <chrono>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hekla {
namespace {

// A plugin that never returns must not outlive the host.
void end_with_host() {
    start_thread("host", [] {
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

bool started_by_host() {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(ChildProcess::kSocket, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

Result<HostConnection> connect_to_host(uint64_t memory_bytes) {
    ::close_range(ChildProcess::kMemory + 1, ~0u, 0);
    for (const int descriptor : {ChildProcess::kSocket, ChildProcess::kMemory})
        ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    limit(memory_bytes);
    end_with_host();
    HostConnection connection{FileHandle(ChildProcess::kSocket), {}};
    HK_ASSIGN(connection.memory, SharedMemory::of(FileHandle(ChildProcess::kMemory)));
    return connection;
}

} // namespace hekla
