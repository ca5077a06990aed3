#include "infer/adapters/adapter_keys.hpp"

#include "plugin/composition/alternatives.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::infer {
namespace {

using nlohmann::json;

struct UnreadKey {
    std::string_view whose, key, values;
};
constexpr UnreadKey kUnreadKeys[] = {
#define HK_UNREAD_KEY(whose, key, values) {whose, key, values},
#include "infer/adapters/adapter_keys.inc"
#undef HK_UNREAD_KEY
};

bool is_neutral(std::string_view alternatives, const json& value, const json& config) {
    return plugin::any_alternative(alternatives, [&](std::string_view one) {
        if (one == "any") return true;
        if (one == "flat") return config.value("flat", json(false)) == true;
        return value == json::parse(one, nullptr, false);
    });
}

// Returns whether an option that is not known is off.
bool is_off(const json& value) {
    return value.is_null() || value == false || value == 0 || value == "none" || value == "" ||
           (value.is_structured() && value.empty());
}

std::string expected(std::string_view alternatives) {
    std::string text;
    plugin::any_alternative(alternatives, [&](std::string_view one) {
        if (one != "flat") text += fmt::format("{}{}", text.empty() ? "" : " or ", one);
        return false;
    });
    return text;
}

} // namespace

Status check_unread_keys(std::string_view whose, const json& config, std::span<const std::string_view> read,
                         const std::string& file) {
    const std::string library = whose == "peft" ? "PEFT" : fmt::format("{}'s {}", kAdapterHub, whose);
    for (const auto& [key, value] : config.items()) {
        if (std::ranges::count(read, key) > 0) continue;
        const auto known = std::ranges::find_if(
            kUnreadKeys, [&, &name = key](const UnreadKey& one) { return one.whose == whose && one.key == name; });
        if (known == std::end(kUnreadKeys)) {
            if (!is_off(value))
                return unsupported(
                    fmt::format("{}: '{}' is {}: this option of {} is not known; remove the key if it does "
                                "not change what the adapter computes",
                                file, key, as_text(value), library));
        } else if (!is_neutral(known->values, value, config)) {
            return unsupported(fmt::format("{}: '{}' is {}: this option of {} is not supported; expected {}", file, key,
                                           as_text(value), library, expected(known->values)));
        }
    }
    return {};
}

} // namespace hekla::infer
