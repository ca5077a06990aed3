// The program's side of ChildProcess.
#pragma once

#include "base/child_process.hpp"

#include <cstdint>

namespace hekla {

struct HostConnection {
    FileHandle socket;
    SharedMemory memory;
};

// Returns whether this process has the socket of a host.
bool started_by_host();
// Takes the handles, and closes all other files that the host left open. Limits this process to `memory_bytes` of
// address space (0: unlimited), and ends it two seconds after the host has closed the socket. Call it once, at the
// beginning.
Result<HostConnection> connect_to_host(uint64_t memory_bytes);

} // namespace hekla
