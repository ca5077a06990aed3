#include "train/recipe_adapters.hpp"

namespace hekla::train {
namespace {

Result<RecipeAdapter> read_adapter(const std::string& name, const std::string& key, const auto& section, bool train) {
    RecipeAdapter adapter{{name, {section.id, section.config}, train}, key};
    if (section.from.empty()) return adapter;
    Result<infer::StoredAdapter> from = infer::open_stored_adapter(section.from);
    if (!from.ok()) return from.status().with_context(key + ".from");
    adapter.spec.part = {from->id, from->config};
    adapter.from = from.take();
    return adapter;
}

} // namespace

bool has_adapters(const Recipe& recipe) {
    return !recipe.adapter.id.empty() || !recipe.adapter.from.empty() || !recipe.adapters.empty();
}

std::vector<std::string> adapter_names(const Recipe& recipe) {
    std::vector<std::string> names;
    for (const auto& [name, section] : recipe.adapters) names.push_back(name);
    return names;
}

Result<std::vector<RecipeAdapter>> read_adapters(const Recipe& recipe) {
    std::vector<RecipeAdapter> adapters;
    if (!recipe.adapter.id.empty() || !recipe.adapter.from.empty()) {
        HK_ASSIGN(RecipeAdapter adapter, read_adapter("", "adapter", recipe.adapter, true));
        adapters.push_back(std::move(adapter));
    }
    for (const auto& [name, section] : recipe.adapters) {
        HK_ASSIGN(RecipeAdapter adapter,
                  read_adapter(name, "adapters." + name, section, section.train.value_or(section.from.empty())));
        adapters.push_back(std::move(adapter));
    }
    return adapters;
}

} // namespace hekla::train
