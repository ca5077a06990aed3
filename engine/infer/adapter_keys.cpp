#include "infer/adapter_keys.hpp"

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
#include "infer/adapter_keys.inc"
#undef HK_UNREAD_KEY
};

// Calls f with each alternative until it returns true.
bool any_of(std::string_view alternatives, const auto& f) {
    for (;;) {
        const std::size_t bar = alternatives.find('|');
        if (f(alternatives.substr(0, bar))) return true;
        if (bar == std::string_view::npos) return false;
        alternatives.remove_prefix(bar + 1);
    }
}

bool is_neutral(std::string_view alternatives, const json& value, const json& config) {
    return any_of(alternatives, [&](std::string_view one) {
        if (one == "any") return true;
        if (one == "flat") return config.value("flat", json(false)) == true;
        return value == json::parse(one, nullptr, false);
    });
}

std::string expected(std::string_view alternatives) {
    std::string text;
    any_of(alternatives, [&](std::string_view one) {
        if (one != "flat") text += fmt::format("{}{}", text.empty() ? "" : " or ", one);
        return false;
    });
    return text;
}

} // namespace

Result<std::vector<std::string>> check_unread_keys(std::string_view whose, const json& config,
                                                   std::span<const std::string_view> read, const std::string& file) {
    std::vector<std::string> warnings;
    for (const auto& [key, value] : config.items()) {
        if (std::ranges::count(read, key) > 0) continue;
        const auto known = std::ranges::find_if(
            kUnreadKeys, [&, &name = key](const UnreadKey& one) { return one.whose == whose && one.key == name; });
        if (known == std::end(kUnreadKeys)) {
            if (!value.is_null()) warnings.push_back(fmt::format("{}: the key '{}' is not known", file, key));
        } else if (!is_neutral(known->values, value, config)) {
            return unsupported(fmt::format(
                "{}: '{}' is {}: this option of {} is not supported; expected {}", file, key, as_text(value),
                whose == "peft" ? "PEFT" : fmt::format("{}'s {}", kAdapterHub, whose), expected(known->values)));
        }
    }
    return warnings;
}

} // namespace hekla::infer
