#include "gpu/quirks.hpp"

#include "base/json.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hekla::gpu {

std::string_view quirks_file(); // generated from quirks.json

std::string lowered(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

namespace {

using Json = nlohmann::json;

bool contains(std::string_view text, std::string_view part) {
    return lowered(text).find(lowered(part)) != std::string::npos;
}

Status read_row(const Json& row, Quirk& quirk) {
    if (!row.is_object()) return corrupt("a quirk is not an object");
    for (const auto& entry : row.items()) {
        const std::string& key = entry.key();
        const Json& value = entry.value();
        const auto number = [&](std::optional<uint32_t>& to) -> Status {
            if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX)
                return corrupt(fmt::format("quirk key \"{}\" needs a number from 0 to 4294967295", key));
            to = value.get<uint32_t>();
            return {};
        };
        const auto text = [&](auto& to) -> Status {
            if (!value.is_string()) return corrupt(fmt::format("quirk key \"{}\" needs a text", key));
            to = value.get<std::string>();
            return {};
        };
        if (key == "vendor_id") {
            HK_TRY(number(quirk.vendor_id));
        } else if (key == "device_id") {
            HK_TRY(number(quirk.device_id));
        } else if (key == "driver_id") {
            HK_TRY(number(quirk.driver_id));
        } else if (key == "device_contains") {
            if (value.is_array() && value.empty()) return corrupt("quirk key \"device_contains\" is an empty array");
            for (const Json& part : value.is_array() ? value : Json::array({value})) {
                if (!part.is_string())
                    return corrupt("quirk key \"device_contains\" needs a text or an array of texts");
                quirk.device_contains.push_back(part.get<std::string>());
            }
        } else if (key == "driver_contains") {
            HK_TRY(text(quirk.driver_contains));
        } else if (key == "version_from" || key == "version_below") {
            auto& to = key == "version_from" ? quirk.version_from : quirk.version_below;
            HK_TRY(text(to));
            if (version_in_text(*to).empty()) return corrupt(fmt::format("quirk version \"{}\" is none", *to));
        } else if (key == "reason") {
            HK_TRY(text(quirk.reason));
        } else if (key == "link") {
            HK_TRY(text(quirk.link));
        } else if (key == "takes") {
            if (!value.is_array()) return corrupt("quirk key \"takes\" needs an array of names");
            for (const Json& name : value) {
                if (!name.is_string()) return corrupt("quirk key \"takes\" needs an array of names");
                Capabilities nothing;
                HK_TRY(take_away(nothing, name.get<std::string>(), ""));
                quirk.takes.push_back(name.get<std::string>());
            }
        } else {
            return corrupt(fmt::format("a quirk has no key \"{}\"", key));
        }
    }
    if (quirk.reason.empty() || quirk.link.empty() || quirk.takes.empty())
        return corrupt("a quirk needs what it takes, a reason and a link");
    return {};
}

} // namespace

std::vector<uint32_t> version_in_text(std::string_view text) {
    const auto digit = [&](std::size_t i) {
        return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!digit(i)) continue;
        std::vector<uint32_t> parts;
        std::size_t at = i;
        while (digit(at)) {
            uint64_t part = 0;
            while (digit(at))
                part = std::min<uint64_t>(part * 10 + static_cast<uint64_t>(text[at++] - '0'), UINT32_MAX);
            parts.push_back(static_cast<uint32_t>(part));
            if (at < text.size() && text[at] == '.') ++at;
        }
        if (parts.size() > 1) return parts;
        i = at;
    }
    return {};
}

Result<std::vector<Quirk>> parse_quirks(std::string_view json) {
    HK_ASSIGN(const Json file, parse_json_object(json, "the quirk table"));
    std::vector<Quirk> quirks;
    for (const auto& [key, value] : file.items()) {
        if (key == "comment") continue;
        if (key != "quirks" || !value.is_array()) {
            return corrupt(fmt::format("the quirk table holds \"quirks\", an array, and a comment; not \"{}\"", key));
        }
        for (const Json& row : value) {
            Quirk quirk;
            Status status = read_row(row, quirk);
            if (!status.ok()) return status.with_context(fmt::format("quirk {}", quirks.size()));
            quirks.push_back(std::move(quirk));
        }
    }
    return quirks;
}

Result<std::vector<Quirk>> built_in_quirks() { return parse_quirks(quirks_file()); }

bool quirk_applies(const Quirk& quirk, const Capabilities& c) {
    if (quirk.vendor_id && *quirk.vendor_id != c.vendor_id) return false;
    if (quirk.device_id && *quirk.device_id != c.device_id) return false;
    if (quirk.driver_id && *quirk.driver_id != c.driver_id) return false;
    const auto named = [&](const std::string& part) { return contains(c.device_name, part); };
    if (!quirk.device_contains.empty() && std::ranges::none_of(quirk.device_contains, named)) return false;
    if (quirk.driver_contains && !contains(c.driver_name, *quirk.driver_contains) &&
        !contains(c.driver_info, *quirk.driver_contains)) {
        return false;
    }
    if (quirk.version_from || quirk.version_below) {
        const std::vector<uint32_t> have = version_in_text(c.driver_info);
        if (have.empty()) return true; // a driver without a version counts as affected: slower, never wrong
        if (quirk.version_from && have < version_in_text(*quirk.version_from)) return false;
        if (quirk.version_below && have >= version_in_text(*quirk.version_below)) return false;
    }
    return true;
}

Status apply_quirks(Capabilities& capabilities, const std::vector<Quirk>& quirks) {
    for (const Quirk& quirk : quirks) {
        if (!quirk_applies(quirk, capabilities)) continue;
        for (const std::string& name : quirk.takes) {
            HK_TRY(take_away(capabilities, name, fmt::format("{} ({})", quirk.reason, quirk.link)));
        }
    }
    return {};
}

} // namespace hekla::gpu
