#include "train/recipe_key.hpp"

#include "train/recipe_value.hpp"
#include "train/recipe_visit.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

// A visitor that collects the rows themselves.
class Describer {
public:
    template<class Section, class Visit>
    void section(const SectionInfo& info, const Section& section, const Visit& visit) {
        found.push_back({std::string(info.name), std::string(info.meaning), {}});
        visit(section, *this);
    }
    template<class Section, class Visit>
    void sections(const SectionInfo& info, const NamedSections<Section>&, const Visit& visit) {
        found.push_back({std::string(info.name) + ".NAME", std::string(info.meaning), {}});
        const Section section;
        visit(section, *this);
    }
    template<class T>
    void key(const KeyInfo& info, const T&, const T& fallback) {
        add(info, type_text(fallback), is_empty(fallback) ? "" : toml_text(fallback));
    }
    void other_keys(const KeyInfo& info, const nlohmann::json&) { add(info, "", ""); }

    std::vector<RecipeSection> found;

private:
    void add(const KeyInfo& info, const char* type, std::string fallback) {
        found.back().keys.push_back({found.back().name, std::string(info.name), type, std::move(fallback),
                                     info.rule.text(), std::string(info.meaning), info.resume});
    }
};

// A visitor that collects the values of a recipe, as they are written.
class Writer {
public:
    template<class Section, class Visit>
    void section(const SectionInfo& info, const Section& section, const Visit& visit) {
        section_ = info.name;
        visit(section, *this);
    }
    template<class Section, class Visit>
    void sections(const SectionInfo& info, const NamedSections<Section>& all, const Visit& visit) {
        for (const auto& [name, one] : all) {
            section_ = fmt::format("{}.{}", info.name, quoted(name));
            visit(one, *this);
        }
    }
    template<class T>
    void key(const KeyInfo& info, const T& value, const T& fallback) {
        if (!is_empty(value) || !is_empty(fallback)) add(std::string(info.name), info, toml_text(value), false);
    }
    void other_keys(const KeyInfo& info, const nlohmann::json& config) {
        for (const auto& [key, value] : config.items())
            if (!value.is_null()) add(key, info, toml_text(value), true);
    }

    std::vector<RecipeValue> found;

private:
    void add(const std::string& key, const KeyInfo& info, std::string value, bool quote) {
        std::string line = fmt::format("{} = {}", quote ? quoted(key) : key, value);
        found.push_back({section_, key, std::move(line), std::move(value), info.resume});
    }
    std::string section_;
};

} // namespace

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

std::vector<RecipeSection> recipe_sections() {
    Describer describer;
    const Recipe recipe;
    visit_sections(recipe, describer);
    return std::move(describer.found);
}

std::vector<std::string> recipe_key_names() {
    std::vector<std::string> names;
    for (const RecipeSection& section : recipe_sections())
        for (const RecipeKey& key : section.keys)
            if (!key.name.empty()) names.push_back(fmt::format("{}.{}", section.name, key.name));
    return names;
}

std::vector<RecipeValue> recipe_values(const Recipe& recipe) {
    Writer writer;
    visit_sections(recipe, writer);
    return std::move(writer.found);
}

} // namespace hekla::train
