#include "train/recipe/recipe_value.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

using nlohmann::json;

template<class Values, class Text>
std::string array_text(const Values& values, const Text& text) {
    std::vector<std::string> parts;
    for (const auto& value : values) parts.push_back(text(value));
    return fmt::format("[{}]", fmt::join(parts, ", "));
}

} // namespace

// JSON's escapes are valid TOML.
std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', false, json::error_handler_t::replace); }

std::string toml_text(const std::string& value) { return quoted(value); }
std::string toml_text(int64_t value) { return fmt::format("{}", value); }
std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(const std::optional<bool>& value) { return value ? toml_text(*value) : ""; }

std::string toml_text(double value) {
    std::string text = fmt::format("{}", value); // shortest text that reads back exactly
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
}

std::string toml_text(const std::vector<std::string>& values) { return array_text(values, quoted); }
std::string toml_text(const std::vector<int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }
std::string toml_text(const TextMap& values) { return toml_text(json(values)); }

std::string toml_text(const TemplateMap& values) {
    json all = json::object();
    for (const auto& [name, texts] : values) all[name] = texts.size() == 1 ? json(texts.front()) : json(texts);
    return toml_text(all);
}

std::string toml_text(const RateList& values) {
    json rates = json::object();
    for (const auto& [pattern, rate] : values) rates[pattern] = rate;
    return toml_text(rates);
}

std::string toml_text(const StepValues& values) {
    return array_text(values,
                      [](const auto& pair) { return fmt::format("[{}, {}]", pair.first, toml_text(pair.second)); });
}

std::string toml_text(const json& value) {
    if (value.is_object()) {
        std::vector<std::string> parts;
        for (const auto& [key, element] : value.items()) parts.push_back(quoted(key) + " = " + toml_text(element));
        return fmt::format("{{{}}}", fmt::join(parts, ", "));
    }
    if (value.is_array()) return array_text(value, [](const json& element) { return toml_text(element); });
    if (value.is_string()) return quoted(value.get<std::string>());
    if (value.is_number_float() && !std::isfinite(value.get<double>())) return fmt::format("{}", value.get<double>());
    return value.dump();
}

} // namespace hekla::train
