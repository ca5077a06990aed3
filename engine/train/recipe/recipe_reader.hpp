// A visitor for recipe_visit.hpp that reads the sections of a recipe.
#pragma once

#include "base/strict_table.hpp"
#include "train/recipe/recipe.hpp"
#include "train/recipe/recipe_key.hpp"

#include <fmt/format.h>
#include <optional>

namespace hekla::train {

class RecipeReader {
public:
    // root: the recipe; it must outlive this, as `reading`.
    RecipeReader(const nlohmann::json& root, TableReading& reading) : root_(root), reading_(reading) {}

    template<class Section, class Visit>
    void section(const SectionInfo& info, Section& section, const Visit& visit) {
        begin(std::string(info.name), section_of(info));
        visit(section, *this);
        refuse_other_keys();
    }
    template<class Section, class Visit>
    void sections(const SectionInfo& info, NamedSections<Section>& all, const Visit& visit) {
        const nlohmann::json& named = section_of(info);
        begin(std::string(info.name), named);
        if (!named.is_object()) return;
        for (const auto& [name, value] : named.items()) {
            begin(fmt::format("{}.{}", info.name, name), value, info.shorthand);
            visit(all[name], *this);
            refuse_other_keys();
        }
    }
    // Leaves `out` unchanged if the key is not given.
    template<class T>
    void key(const KeyInfo& info, T& out, const T&) {
        if (const nlohmann::json* value = find(info)) read(*value, info, out);
    }
    // Stores the keys of the section that no key() call read.
    void other_keys(const KeyInfo& info, nlohmann::json& out);

    // Returns the first error, which includes sections that were not visited.
    Status finish();

private:
    const nlohmann::json& section_of(const SectionInfo& info); // an empty one if it is not given
    // shorthand: the key that a value sets if it is not a table; empty: none.
    void begin(std::string name, const nlohmann::json& value, std::string_view shorthand = {});
    const nlohmann::json* find(const KeyInfo& info);
    void refuse_other_keys();

    void read(const nlohmann::json& value, const KeyInfo& info, std::string& out);
    void read(const nlohmann::json& value, const KeyInfo& info, bool& out);
    void read(const nlohmann::json& value, const KeyInfo& info, std::optional<bool>& out);
    void read(const nlohmann::json& value, const KeyInfo& info, int64_t& out);
    void read(const nlohmann::json& value, const KeyInfo& info, double& out);
    void read(const nlohmann::json& value, const KeyInfo& info, std::vector<std::string>& out);
    void read(const nlohmann::json& value, const KeyInfo& info, std::vector<int64_t>& out);
    void read(const nlohmann::json& value, const KeyInfo& info, TextMap& out);
    void read(const nlohmann::json& value, const KeyInfo& info, ColumnMap& out);
    void read(const nlohmann::json& value, const KeyInfo& info, TemplateMap& out);
    void read(const nlohmann::json& value, const KeyInfo& info, RateList& out);
    void read(const nlohmann::json& value, const KeyInfo& info, StepValues& out);

    const nlohmann::json& root_;
    TableReading& reading_;
    const nlohmann::json none_ = nlohmann::json::object();
    std::vector<std::string> sections_;     // visited
    std::optional<StrictTable> table_;      // the section that is being read
    const nlohmann::json* value_ = nullptr; // of a named section that is not a table: the value of the key shorthand_
    std::string_view shorthand_;
};

} // namespace hekla::train
