#include "plugin/composition/part_config.hpp"

#include "base/name_pattern.hpp"
#include "base/nearest_name.hpp"
#include "model/parameter_names.hpp"
#include "plugin/host/host_config.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::plugin {

using nlohmann::json;

json with_defaults(const Provided& provided, const json& given) {
    json values = provided.defaults.parse();
    for (const auto& [key, value] : given.items())
        if (!value.is_null() || !values.contains(key) ||
            std::ranges::find(provided.nullable, key) != provided.nullable.end())
            values[key] = value;
    return values;
}

Status check_ranges(const Provided& provided, const json& values, const std::string& what) {
    for (const auto& [key, minimum, maximum] : provided.ranges) {
        const auto found = values.find(key);
        if (found == values.end() || !found->is_number()) continue;
        const auto value = found->get<double>();
        if ((!minimum || value >= *minimum) && (!maximum || value <= *maximum)) continue;
        std::string expected = minimum ? fmt::format("{} or more", *minimum) : "";
        if (maximum)
            expected = minimum ? fmt::format("from {} to {}", *minimum, *maximum) : fmt::format("{} or less", *maximum);
        return invalid_argument(fmt::format("{}: {} is {}, expected {}", what, key, found->dump(), expected));
    }
    return {};
}

Status unknown_keys(const Provided& provided, const json& given, const json& values, const std::set<std::string>& read,
                    bool refuse, const Log& log, const std::string& what) {
    hk_config config;
    config.values = values;
    config.read = read;
    const std::vector<std::string> unread = unread_keys(config);
    for (const auto& [key, value] : given.items()) {
        if (std::ranges::find(unread, key) == unread.end()) continue;
        if (std::ranges::find(provided.parameters, key) != provided.parameters.end()) continue;
        if (std::ranges::any_of(provided.ignored,
                                [&, &name = key](std::string_view p) { return hekla::matches(p, name); }))
            continue;
        const std::string message =
            fmt::format("{} does not know the key '{}'{}", what, key, did_you_mean(key, provided.parameters));
        if (refuse) return invalid_argument(message);
        log.warning(message);
    }
    return {};
}

bool goes_apart(const Registry& registry, const Manifest& manifest) {
    const Processes::Describe how = registry.processes().describe;
    return how == Processes::Describe::child || (how == Processes::Describe::automatic && !manifest.built_in);
}

} // namespace hekla::plugin
