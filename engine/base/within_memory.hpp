// A refusal of the host's allocator as a Status.
#pragma once

#include "base/status.hpp"

#include <new>
#include <string>

namespace hekla {

// out_of_memory where `work` throws std::bad_alloc. what_for: behind "on the host, ".
template<class Work>
Status within_memory(const char* what_for, const Work& work) {
    try {
        return work();
    } catch (const std::bad_alloc&) { return out_of_memory(std::string("on the host, ") + what_for); }
}

} // namespace hekla
