#include "plugin/host_error.hpp"

#include <fmt/format.h>

namespace hekla::plugin {

const hk_error_interface* host_error_interface() {
    static const hk_error_interface table = {
        [](hk_error* error, int32_t code, hk_string message) {
            if (error == nullptr) return;
            error->code = code;
            try {
                error->message.assign(message.data != nullptr ? message.data : "",
                                      message.data != nullptr ? message.size : 0);
            } catch (...) {
                error->message.clear(); // out of memory: the code alone must do
            }
        },
    };
    return &table;
}

Status status_of(int32_t code, const hk_error& error, const std::string& what) {
    if (code == HK_OK) return {};
    const bool known = code > HK_OK && code <= HK_INTERNAL;
    const Code ours = known ? static_cast<Code>(code) : Code::internal;
    if (error.message.empty()) return {ours, fmt::format("{}: {} (the plugin gave no reason)", what, code_name(ours))};
    return {ours, fmt::format("{}: {}", what, error.message)};
}

} // namespace hekla::plugin
