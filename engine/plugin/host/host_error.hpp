// The host's side of hekla.error/1.
#pragma once

#include "base/status.hpp"
#include "hekla/plugin/error.h"

#include <exception>
#include <fmt/format.h>
#include <string>
#include <string_view>

// The definition of hk_error.
struct hk_error {
    int32_t code = HK_OK;
    std::string message;
    bool threw = false; // an exception came out of the plugin
};

namespace hekla::plugin {

// Converts a string from a plugin; empty if it has no data.
inline std::string_view view(hk_string s) {
    return s.data != nullptr ? std::string_view(s.data, static_cast<std::size_t>(s.size)) : std::string_view();
}

// Returns whether a text is UTF-8. [abi.1]
bool is_utf8(std::string_view s);

const hk_error_interface* host_error_interface();

// Stores an error in the plugin's hk_error and returns its code.
int32_t refuse(hk_error* error, int32_t code, const std::string& message);

// Stores the current exception of a host function in the plugin's hk_error and returns the code: HK_OUT_OF_MEMORY for
// std::bad_alloc.
int32_t refuse_exception(hk_error* error, const std::exception& e);

// Returns the Status of a plugin's call: its code with its message, or a message that the plugin gave no reason.
Status status_of(int32_t code, const hk_error& error, const std::string& what);
// Overload for a call that ended with an error of the graph: the builder's error and the plugin's own message, which
// contains the source location [graph.10].
Status status_of(const Status& builder, int32_t code, const hk_error& error, const std::string& what);

// Calls a plugin. An exception, which plugins must not throw, becomes an error of that plugin.
template<class F>
int32_t guarded(hk_error& error, F&& f) {
    constexpr const char* kThrew = "the plugin threw an exception; plugins must not";
    try {
        return f();
    } catch (const std::exception& e) { error.message = fmt::format("{} ({})", kThrew, e.what()); } catch (...) {
        error.message = kThrew;
    }
    error.code = HK_INTERNAL;
    error.threw = true;
    return HK_INTERNAL;
}

} // namespace hekla::plugin
