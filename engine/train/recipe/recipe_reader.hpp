// A visitor for recipe_visit.hpp that reads the sections of a recipe from TOML.
#pragma once

#include "train/recipe/recipe.hpp"
#include "train/recipe/recipe_key.hpp"
#include "train/recipe/toml_text.hpp"

namespace hekla::train {

// Returns the location of a node for messages: "FILE:LINE", or the override that it came from.
std::string place_of(const toml::node& node, const std::string& file);

class RecipeReader {
public:
    RecipeReader(const toml::table& root, const std::string& file) : root_(root), file_(file) {}

    template<class Section, class Visit>
    void section(const SectionInfo& info, Section& section, const Visit& visit) {
        const toml::node* node = root_.get(info.name);
        sections_.emplace_back(info.name);
        begin(std::string(info.name), node);
        visit(section, *this);
        refuse_other_keys();
    }
    template<class Section, class Visit>
    void sections(const SectionInfo& info, NamedSections<Section>& all, const Visit& visit) {
        sections_.emplace_back(info.name);
        begin(std::string(info.name), root_.get(info.name));
        if (table_ == nullptr) return;
        const toml::table& named = *table_;
        for (const auto& [key, node] : named) {
            const std::string name(key.str());
            begin_named(full_name(info.name, name), node, info.shorthand);
            visit(all[name], *this);
            refuse_other_keys();
        }
    }
    // Leaves `out` unchanged if the key is not given.
    template<class T>
    void key(const KeyInfo& info, T& out, const T&) {
        if (const toml::node* node = find(info)) read(*node, info, out);
    }
    // Stores the keys of the section that no key() call read.
    void other_keys(const KeyInfo& info, nlohmann::json& out);

    // Returns the first error, which includes sections that were not visited.
    Status finish();

private:
    static std::string full_name(std::string_view section, const std::string& name);
    void begin(std::string name, const toml::node* node);
    void begin_named(std::string name, const toml::node& node, std::string_view shorthand);
    const toml::node* find(const KeyInfo& info);
    void refuse_other_keys();

    void read(const toml::node& node, const KeyInfo& info, std::string& out);
    void read(const toml::node& node, const KeyInfo& info, bool& out);
    void read(const toml::node& node, const KeyInfo& info, std::optional<bool>& out);
    void read(const toml::node& node, const KeyInfo& info, int64_t& out);
    void read(const toml::node& node, const KeyInfo& info, double& out);
    void read(const toml::node& node, const KeyInfo& info, std::vector<std::string>& out);
    void read(const toml::node& node, const KeyInfo& info, std::vector<int64_t>& out);
    void read(const toml::node& node, const KeyInfo& info, TextMap& out);
    void read(const toml::node& node, const KeyInfo& info, ColumnMap& out);
    void read(const toml::node& node, const KeyInfo& info, TemplateMap& out);
    void read(const toml::node& node, const KeyInfo& info, RateList& out);
    void read(const toml::node& node, const KeyInfo& info, StepValues& out);
    nlohmann::json json_of(const toml::node& node, std::string_view key);

    // Only the first error is kept.
    void fail(const toml::node& node, std::string_view key, const std::string& what);
    void wrong(const toml::node& node, const KeyInfo& info, std::string_view expected);

    const toml::table& root_;
    const std::string& file_;
    Status status_;
    std::vector<std::string> sections_; // visited
    std::string name_;                  // of the section that is being read
    const toml::table* table_ = nullptr;
    const toml::node* value_ = nullptr; // of a named section that is not a table: the value of the key shorthand_
    std::string_view shorthand_;
    std::vector<std::string> known_; // keys of the section that is being read
};

} // namespace hekla::train
