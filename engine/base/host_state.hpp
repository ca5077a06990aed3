// What a host may set for a thread and what changes numbers: its locale and its floating-point environment.
#pragma once

#include <cfenv>
#include <clocale>
#include <locale.h>

namespace hekla {

// The calling thread's locale and floating-point environment, saved while the locale is "C" and the environment the
// default one (round to nearest, subnormal numbers kept, no traps). Thread: destroyed on the one that created it.
class HostState {
public:
    HostState() : locale_(::uselocale(classic())) {
        std::fegetenv(&environment_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~HostState() {
        std::fesetenv(&environment_);
        ::uselocale(locale_);
    }
    HostState(const HostState&) = delete;
    HostState& operator=(const HostState&) = delete;

private:
    static locale_t classic() {
        static const locale_t kClassic = ::newlocale(LC_ALL_MASK, "C", nullptr); // never freed
        return kClassic;
    }
    locale_t locale_;
    std::fenv_t environment_{};
};

} // namespace hekla
