// The host's side of hekla.error/1.
#pragma once

#include "base/status.hpp"
#include "hekla/plugin/error.h"

#include <string>
#include <string_view>

// What the plugin side sees as hk_error.
struct hk_error {
    int32_t code = HK_OK;
    std::string message;
};

namespace hekla::plugin {

// A string that a plugin gave; without data it is empty.
inline std::string_view view(hk_string s) {
    return s.data != nullptr ? std::string_view(s.data, static_cast<std::size_t>(s.size)) : std::string_view();
}

const hk_error_interface* host_error_interface();

// The Status of a plugin's call: its code, with what it said, or a sentence that it said nothing.
Status status_of(int32_t code, const hk_error& error, const std::string& what);

} // namespace hekla::plugin
