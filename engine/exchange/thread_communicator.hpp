// Communicators between threads of one process: bytes are copied from the sender's memory to the receiver's.
#pragma once

#include "hekla/communicator.h"

#include <cstdint>
#include <span>

namespace hekla::exchange {

// Fills in a group of as many ranks as the span has. Each needs destroy_thread_communicator(); the group's memory is
// freed with the last.
void create_thread_communicators(std::span<hk_communicator> ranks);
void destroy_thread_communicator(hk_communicator& rank);

} // namespace hekla::exchange
