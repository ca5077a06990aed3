#include "train/recipe/foreign_keys.hpp"

#include <fmt/format.h>

namespace hekla::train {
namespace {

struct ForeignKey {
    std::string_view names, meant, what_to_do;
};
constexpr ForeignKey kForeignKeys[] = {
#define HK_FOREIGN_KEY(names, meant, what_to_do) {names, meant, what_to_do},
#include "train/recipe/foreign_keys.inc"
#undef HK_FOREIGN_KEY
};

// The sections of a recipe, each followed by its keys.
struct OwnName {
    std::string_view section, key;
};
constexpr OwnName kOwnNames[] = {
#define HK_RECIPE_SECTION(name, type, meaning) {#name, ""},
#define HK_RECIPE_KEY(type, key, fallback, resume, rule, meaning) {"", #key},
#include "train/recipe/recipe_keys.inc"
};

// Returns the only section that has a key; empty if none or several have it.
std::string_view section_of(std::string_view key) {
    std::string_view section, found;
    for (const OwnName& own : kOwnNames) {
        if (!own.section.empty()) section = own.section;
        if (own.key != key || key.empty()) continue;
        if (!found.empty()) return {};
        found = section;
    }
    return found;
}

bool has_word(std::string_view words, std::string_view word) {
    for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
        const std::size_t end = at + word.size();
        if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return !word.empty();
    }
    return false;
}

} // namespace

std::string advice_for_foreign_key(std::string_view section, std::string_view key) {
    if (const std::string_view own = section_of(key); !own.empty() && own != section)
        return fmt::format("; write {}.{}", own, key);
    for (const auto& [names, meant, what_to_do] : kForeignKeys) {
        if (!has_word(names, key)) continue;
        if (meant.empty()) return fmt::format("; {}", what_to_do);
        return fmt::format("; write {}{}{}", meant, what_to_do.empty() ? "" : ": ", what_to_do);
    }
    return {};
}

} // namespace hekla::train
