// The other side of parts_apart.hpp: what hekla-describe does.
#pragma once

#include "base/child_process.hpp"

namespace hekla::plugin {

// Answers the host at the socket until it hangs up. 0, or what to exit with where the host says what none would.
int serve(Descriptor socket, SharedMemory memory);

} // namespace hekla::plugin
