#include "base/host_state.hpp"

#include <clocale>
#include <locale.h>

namespace hekla {

HostState::HostState() {
    static const locale_t kClassic = ::newlocale(LC_ALL_MASK, "C", nullptr); // never freed
    locale_ = ::uselocale(kClassic);
    std::fegetenv(&environment_);
    std::fesetenv(FE_DFL_ENV);
}

HostState::~HostState() {
    std::fesetenv(&environment_);
    ::uselocale(static_cast<locale_t>(locale_));
}

} // namespace hekla
