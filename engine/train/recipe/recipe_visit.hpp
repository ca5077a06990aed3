// Calls a visitor for every section and key of a recipe, from the rows of recipe_keys.inc.
#pragma once

#include "train/recipe/recipe.hpp"
#include "train/recipe/recipe_key.hpp"

namespace hekla::train {

// visit_SECTION(section, visitor) calls visitor.key(KeyInfo, member, default) for each key, then
// visitor.other_keys(KeyInfo, member) if the section has them.
#define HK_RECIPE_SECTION(name, type, meaning)                                                                         \
    template<class Section, class Visitor>                                                                             \
    void visit_##name(Section& section, Visitor& visitor) {
#define HK_RECIPE_NAMED_SECTIONS(name, type, shorthand, meaning) HK_RECIPE_SECTION(name, type, meaning)
#define HK_RECIPE_KEY(type, name, value, resume, rule, meaning)                                                        \
    {                                                                                                                  \
        const type fallback = value;                                                                                   \
        visitor.key(KeyInfo{#name, Resume::resume, rule, meaning}, section.name, fallback);                            \
    }
#define HK_RECIPE_OTHER_KEYS(member, resume, meaning)                                                                  \
    visitor.other_keys(KeyInfo{"", Resume::resume, any(), meaning}, section.member);
#define HK_RECIPE_END(name) }
#include "train/recipe/recipe_keys.inc"

// Calls visitor.section(SectionInfo, section or map of sections, visit_SECTION) for every section.
template<class R, class Visitor>
void visit_sections(R& recipe, Visitor& visitor) {
#define HK_RECIPE_SECTION(name, type, meaning)                                                                         \
    visitor.section(SectionInfo{#name, meaning, false, ""}, recipe.name,                                               \
                    [](auto& section, auto& keys) { visit_##name(section, keys); });
#define HK_RECIPE_NAMED_SECTIONS(name, type, shorthand, meaning)                                                       \
    visitor.sections(SectionInfo{#name, meaning, true, shorthand}, recipe.name,                                        \
                     [](auto& section, auto& keys) { visit_##name(section, keys); });
#include "train/recipe/recipe_keys.inc"
}

} // namespace hekla::train
