#include "fine_tuning/recipe_draft.hpp"

#include "train/recipe/recipe_file.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace hekla::app {
namespace {

constexpr std::size_t kRecipeWidth = 118; // of a line with its reason

// The order in which a reader meets them; others follow.
constexpr std::array<const char*, 8> kSections{"model", "adapter", "teacher", "objective",
                                               "head",  "data",    "train",   "output"};

std::string wrapped(const std::string& text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = text.size();
        if (text.size() - at > kRecipeWidth) {
            const std::size_t space = text.rfind(' ', at + kRecipeWidth);
            if (space != std::string::npos && space > at) end = space;
        }
        out += fmt::format("# {}\n", text.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

} // namespace

void RecipeDraft::set(const std::string& section, const std::string& key, std::string value, std::string reason) {
    const auto found =
        std::ranges::find_if(keys_, [&](const Key& one) { return one.section == section && one.key == key; });
    if (overridden(section, key)) return;
    if (found == keys_.end())
        keys_.push_back({section, key, std::move(value), std::move(reason)});
    else
        *found = {section, key, std::move(value), std::move(reason)};
}

void RecipeDraft::remove(const std::string& section, const std::string& key) {
    if (overridden(section, key)) return;
    std::erase_if(keys_, [&](const Key& one) { return one.section == section && one.key == key; });
}

Status RecipeDraft::override_keys(const std::vector<std::string>& overrides) {
    if (overrides.empty()) return {};
    HK_ASSIGN(const train::Recipe recipe, train::parse_recipe(text(), name_, overrides));
    const std::vector<train::RecipeValue> values = train::recipe_values(recipe);
    for (const std::string& one : overrides) {
        const std::string path = one.substr(0, one.find('='));
        const auto found = std::ranges::find_if(
            values, [&](const train::RecipeValue& value) { return value.section + "." + value.key == path; });
        if (found == values.end() || path.size() + 1 >= one.size())
            return invalid_argument(
                fmt::format("{}: with --model, the form is SECTION.KEY=VALUE for a key of a recipe; "
                            "write the recipe by --plan, and set it there",
                            one));
        set(found->section, found->key, found->value, "given on the command line");
        fixed_.emplace(found->section, found->key);
    }
    return {};
}

std::string RecipeDraft::text() const {
    std::string out;
    for (const std::string& line : header_) out += line.empty() ? "#\n" : fmt::format("# {}\n", line);
    std::vector<std::string> sections;
    for (const char* section : kSections)
        if (std::ranges::find(keys_, section, &Key::section) != keys_.end()) sections.emplace_back(section);
    for (const Key& one : keys_)
        if (std::ranges::find(sections, one.section) == sections.end()) sections.push_back(one.section);
    for (const std::string& section : sections) {
        out += fmt::format("\n[{}]\n", section);
        for (const Key& one : keys_) {
            if (one.section != section) continue;
            const std::string line = fmt::format("{} = {}", one.key, one.value);
            if (one.reason.empty())
                out += line + "\n";
            else if (line.size() + one.reason.size() + 4 <= kRecipeWidth)
                out += fmt::format("{}  # {}\n", line, one.reason);
            else
                out += wrapped(one.reason) + line + "\n";
        }
    }
    return out;
}

Result<train::Recipe> RecipeDraft::recipe() const { return train::parse_recipe(text(), name_); }

} // namespace hekla::app
