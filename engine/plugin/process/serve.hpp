// The worker process, hekla-describe: the other side of worker.hpp.
#pragma once

#include "base/child_process.hpp"

namespace hekla::plugin {

// Answers requests of the host on the socket until it is closed. Returns the exit status: 0, or 1 after an invalid
// message.
int serve(FileHandle socket, SharedMemory memory);

} // namespace hekla::plugin
