// Moving what device memory holds to the host and back, through a queue.
#pragma once

#include "gpu/memory.hpp"
#include "gpu/submit.hpp"

#include <functional>
#include <memory>

namespace hekla::gpu {

// Memory::evict() and Memory::restore(), where `queue` copies what is not mapped.
Status evict(Memory& memory, const std::shared_ptr<Queue>& queue);
Status restore(Memory& memory, const std::shared_ptr<Queue>& queue, const std::function<Status()>& then = {});

} // namespace hekla::gpu
