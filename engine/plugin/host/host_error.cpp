#include "plugin/host/host_error.hpp"

#include <fmt/format.h>
#include <new>

namespace hekla::plugin {

bool is_utf8(std::string_view s) {
    for (std::size_t i = 0; i < s.size();) {
        const auto c = static_cast<unsigned char>(s[i]);
        const std::size_t more = c < 0x80 ? 0 : (c >> 5) == 6 ? 1 : (c >> 4) == 14 ? 2 : (c >> 3) == 30 ? 3 : 9;
        if (more == 9 || i + more >= s.size() + (more == 0 ? 1 : 0)) return false;
        for (std::size_t k = 1; k <= more; ++k)
            if ((static_cast<unsigned char>(s[i + k]) >> 6) != 2) return false;
        i += more + 1;
    }
    return true;
}

const hk_error_interface* host_error_interface() {
    static const hk_error_interface kTable = {
        [](hk_error* error, int32_t code, hk_string message) {
            if (error == nullptr) return;
            error->code = code;
            try {
                error->message.assign(message.data != nullptr ? message.data : "",
                                      message.data != nullptr ? message.size : 0);
            } catch (...) {
                error->message.clear(); // out of memory: only the code is reported
            }
        },
    };
    return &kTable;
}

int32_t refuse(hk_error* error, int32_t code, const std::string& message) {
    host_error_interface()->set(error, code, {message.data(), message.size()});
    return code;
}

int32_t refuse_exception(hk_error* error, const std::exception& e) {
    const bool memory = dynamic_cast<const std::bad_alloc*>(&e) != nullptr;
    const std::string_view what = memory ? "the host has no memory" : e.what();
    const int32_t code = memory ? HK_OUT_OF_MEMORY : HK_INTERNAL;
    host_error_interface()->set(error, code, {what.data(), what.size()});
    return code;
}

Status status_of(int32_t code, const hk_error& error, const std::string& what) {
    if (code == HK_OK) return {};
    const bool known = code > HK_OK && code <= HK_INTERNAL;
    const Code ours = known ? static_cast<Code>(code) : Code::internal;
    if (error.message.empty()) return {ours, fmt::format("{}: {} (the plugin gave no reason)", what, code_name(ours))};
    return {ours, fmt::format("{}: {}", what, error.message)};
}

Status status_of(const Status& builder, int32_t code, const hk_error& error, const std::string& what) {
    const std::string place = code != HK_OK && !error.message.empty() ? fmt::format(" ({})", error.message) : "";
    return Status(builder.code(), fmt::format("{}: {}{}", what, builder.message(), place));
}

} // namespace hekla::plugin
