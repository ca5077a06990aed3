// Values that are separated by "|", as in the tables of keys that are neutral.
#pragma once

#include <string_view>

namespace hekla::plugin {

// Calls f with each alternative until it returns true. Returns whether one did.
template<class F>
bool any_alternative(std::string_view alternatives, const F& f) {
    while (!alternatives.empty()) {
        const std::size_t bar = alternatives.find('|');
        if (f(alternatives.substr(0, bar))) return true;
        alternatives.remove_prefix(bar == std::string_view::npos ? alternatives.size() : bar + 1);
    }
    return false;
}

} // namespace hekla::plugin
