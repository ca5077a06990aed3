// Turns std::bad_alloc into Code::out_of_memory.
#pragma once

#include "base/status.hpp"

#include <new>
#include <string>

namespace hekla {

// Runs `work`; if it throws std::bad_alloc, returns out_of_memory with the message "on the host, " + what_for.
template<class Work>
Status within_memory(const char* what_for, const Work& work) {
    try {
        return work();
    } catch (const std::bad_alloc&) { return out_of_memory(std::string("on the host, ") + what_for); }
}

} // namespace hekla
