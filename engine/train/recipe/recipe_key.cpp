#include "train/recipe/recipe_key.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {

KeyRule KeyRule::at_least(double value) const {
    KeyRule rule = *this;
    rule.low = value;
    return rule;
}

KeyRule KeyRule::unit(std::string_view name) const {
    KeyRule rule = *this;
    rule.unit_name = name;
    return rule;
}

KeyRule KeyRule::integer_is_the_plugins() const {
    KeyRule rule = *this;
    rule.plugins_integer = true;
    return rule;
}

std::string KeyRule::text() const {
    std::vector<std::string> parts;
    if (!unit_name.empty()) parts.emplace_back(unit_name);
    for (const std::string& choice : choices) parts.push_back(fmt::format("`{}`", choice));
    if (std::isfinite(low))
        parts.push_back(std::isfinite(high) ? fmt::format("{} to {}", low, high) : fmt::format("{} or more", low));
    if (!example_text.empty()) parts.push_back(fmt::format("`{}`", example_text));
    return fmt::format("{}", fmt::join(parts, ", "));
}

KeyRule any() { return {}; }

KeyRule path() {
    KeyRule rule;
    rule.is_path = true;
    return rule;
}

KeyRule at_least(double low) { return KeyRule().at_least(low); }

KeyRule between(double low, double high) {
    KeyRule rule = at_least(low);
    rule.high = high;
    return rule;
}

KeyRule one_of(std::vector<std::string> choices) {
    KeyRule rule;
    rule.choices = std::move(choices);
    return rule;
}

KeyRule example(std::string_view text) {
    KeyRule rule;
    rule.example_text = text;
    return rule;
}

} // namespace hekla::train
