// What a host may set for a thread and what changes numbers: its locale and its floating-point environment.
#pragma once

#include <cfenv>

namespace hekla {

// The calling thread's locale and floating-point environment, saved while the locale is "C" and the environment the
// default one (round to nearest, subnormal numbers kept, no traps). Thread: destroyed on the one that created it.
class HostState {
public:
    HostState();
    ~HostState();
    HostState(const HostState&) = delete;
    HostState& operator=(const HostState&) = delete;

private:
    void* locale_; // the system's
    std::fenv_t environment_{};
};

} // namespace hekla
