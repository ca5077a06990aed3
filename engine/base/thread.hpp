// The only place that creates threads of the engine.
#pragma once

#include "base/host.hpp"
#include "base/host_state.hpp"

#include <thread>
#include <utility>

namespace hekla {

// Starts a thread that a library may have in any process: all signals are blocked, so that the host's threads handle
// them, and numbers are computed and written as everywhere in the engine (HostState). name: at most 15 bytes, shown by
// debuggers. Throws std::system_error if there are no more threads.
template<class F>
std::thread start_thread(const char* name, F&& f) {
    const BlockedSignals blocked; // inherited by the new thread
    return std::thread([name, body = std::forward<F>(f)]() mutable {
        name_this_thread(name);
        const HostState host;
        body();
    });
}

} // namespace hekla
