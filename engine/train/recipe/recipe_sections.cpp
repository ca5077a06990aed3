#include "train/recipe/recipe_sections.hpp"

#include "train/recipe/recipe_value.hpp"
#include "train/recipe/recipe_visit.hpp"

#include <fmt/format.h>

namespace hekla::train {
namespace {

// Collects the rows themselves.
class Describer {
public:
    template<class Section, class Visit>
    void section(const SectionInfo& info, const Section& section, const Visit& visit) {
        found.push_back({std::string(info.name), std::string(info.meaning), {}, {}});
        visit(section, *this);
    }
    template<class Section, class Visit>
    void sections(const SectionInfo& info, const NamedSections<Section>&, const Visit& visit) {
        found.push_back({std::string(info.name) + ".NAME", std::string(info.meaning), std::string(info.shorthand), {}});
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

} // namespace

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

} // namespace hekla::train
