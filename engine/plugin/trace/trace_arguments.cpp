#include "plugin/trace/trace_arguments.hpp"

#include <cmath>
#include <optional>

namespace hekla::plugin::trace {

std::string dumped(const ordered_json& value) {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json json_of(std::string_view s) {
    constexpr std::size_t kLongest = 120;
    return s.size() > kLongest ? std::string(s.substr(0, kLongest)) + "..." : std::string(s);
}

std::string quoted_text(std::string_view s) { return dumped(json_of(s)); }

ordered_json json_of(double v) {
    if (std::isfinite(v)) return v;
    return fmt::format("{}", v); // JSON cannot represent it
}

ordered_json list_of(const hk_attribute* attributes, uint64_t count) {
    if (attributes == nullptr) return {};
    ordered_json out = ordered_json::object();
    for (uint64_t i = 0; i < std::min<uint64_t>(count, 32); ++i) {
        const std::optional<hk_attribute> a = struct_at(attributes, i);
        if (!a) return out;
        ordered_json& to = out[is_utf8(view(a->name)) ? std::string(view(a->name)) : std::string("?")];
        switch (a->type) {
        case HK_ATTRIBUTE_INT: to = json_of(a->integer); break;
        case HK_ATTRIBUTE_REAL: to = json_of(a->real); break;
        case HK_ATTRIBUTE_TEXT: to = json_of(a->text); break;
        case HK_ATTRIBUTE_INTS: to = list_of(a->integers, a->count); break;
        default: to = list_of(a->reals, a->count);
        }
    }
    return out;
}

std::string code_text(int32_t code) {
    constexpr const char* kNames[] = {"HK_OK",
                                      "HK_INVALID_ARGUMENT",
                                      "HK_NOT_FOUND",
                                      "HK_UNSUPPORTED",
                                      "HK_FAILED_PRECONDITION",
                                      "HK_OUT_OF_MEMORY",
                                      "HK_IO",
                                      "HK_CORRUPT",
                                      "HK_DEVICE_LOST",
                                      "HK_CANCELLED",
                                      "HK_INTERNAL"};
    return code >= 0 && code <= HK_INTERNAL ? kNames[code] : fmt::format("{}", code);
}

} // namespace hekla::plugin::trace
