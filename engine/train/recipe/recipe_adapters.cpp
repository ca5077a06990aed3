#include "train/recipe/recipe_adapters.hpp"

#include "infer/open/weights_folder.hpp"
#include "plugin/composition/combination.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

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

Status check_names(const AdapterSection& adapter) {
    if (adapter.names.empty() && adapter.route_by.empty()) return {};
    if (adapter.names.empty() || adapter.route_by.empty())
        return invalid_argument(
            adapter.names.empty() ? "[adapter] has route_by, but not `names`, the adapters that its column chooses from"
                                  : "[adapter] has names, but not `route_by`, the column that has the name of a row's "
                                    "adapter");
    if (!adapter.from.empty())
        return invalid_argument("[adapter] has names, of new adapters, and `from`, of one that is trained: remove one");
    for (const auto& [key, why] : {std::pair{"slots", "which is the number of names"},
                                   {"slots_transposed", "which is for generation alone"},
                                   {"n_tasks", "which is the number of names"}})
        if (adapter.config.contains(key))
            return invalid_argument(fmt::format("[adapter] has {} and names: remove `{}`, {}", key, key, why));
    for (auto name = adapter.names.begin(); name != adapter.names.end(); ++name) {
        HK_TRY(plugin::check_adapter_name(*name).with_context("adapter.names"));
        if (std::find(adapter.names.begin(), name, *name) != name)
            return invalid_argument(fmt::format("adapter.names has '{}' twice", *name));
    }
    return {};
}

Status check_adapter(const std::string& section, const auto& adapter) {
    if (!adapter.id.empty() && !adapter.from.empty())
        return invalid_argument(
            fmt::format("[{}] has both `id`, of a new adapter, and `from`, of a trained one: remove one", section));
    if (!adapter.from.empty() && !adapter.config.empty())
        return invalid_argument(fmt::format("[{}] has the key '{}', but `from` = {} has a configuration: remove it",
                                            section, adapter.config.begin().key(), adapter.from));
    if (adapter.id.empty() && adapter.from.empty() && !adapter.config.empty())
        return invalid_argument(fmt::format(
            "[{}] needs `id`, the id of the adapter's plugin, or `from`, the folder of a trained one", section));
    return {};
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

Status check_adapters(const Recipe& r) {
    HK_TRY(check_adapter("adapter", r.adapter));
    HK_TRY(check_names(r.adapter));
    const bool one = !r.adapter.id.empty() || !r.adapter.from.empty();
    if (one && !r.adapters.empty())
        return invalid_argument("both [adapter] and [adapters] are given: name the adapter of [adapter] too, as "
                                "[adapters.NAME], or remove one of them");
    for (const auto& [name, adapter] : r.adapters) {
        const std::string section = "adapters." + name;
        HK_TRY(plugin::check_adapter_name(name).with_context("[adapters]"));
        HK_TRY(check_adapter(section, adapter));
        if (adapter.id.empty() && adapter.from.empty())
            return invalid_argument(fmt::format(
                "[{}] needs `id`, the id of the adapter's plugin, or `from`, the folder of a trained one", section));
        if (adapter.from.empty() && !adapter.train.value_or(true))
            return invalid_argument(fmt::format(
                "{}.train = false, but the adapter is new: set `from` to a trained one, or train it", section));
    }
    const std::vector<std::string> names = adapter_names(r);
    if (names.size() > 1 && r.combine.how.empty())
        return invalid_argument(fmt::format("[combine] needs `how` for the adapters {}, such as \"average({})\"",
                                            fmt::join(names, ", "), fmt::join(names, ", ")));
    if (names.empty() && !(r.combine.how.empty() && r.combine.config.empty()))
        return invalid_argument("[combine] joins the adapters of [adapters.NAME], and there are none");
    if (!names.empty() && !r.combine.how.empty())
        HK_TRY(plugin::parse_combination(r.combine.how, names).status().with_context("combine.how"));
    const std::string section = one ? "[adapter]" : "[adapters]";
    if ((one || !names.empty()) && r.model.from.empty())
        return invalid_argument(section + " needs a trained model: set model.from to its folder");
    if ((one || !names.empty()) &&
        !(r.model.layers.empty() && r.tokenizer.add.empty() && r.tokenizer.add_roles.empty()))
        return invalid_argument(section + " cannot change the network of model.from: remove model.layers, "
                                          "tokenizer.add and tokenizer.add_roles");
    return {};
}

Result<Recipe> with_adapters(const Recipe& recipe, const infer::AdapterUses& uses) {
    Recipe r = recipe;
    if (!has_adapters(recipe)) {
        r.model.from = recipe.output.dir;
        const Status found = infer::weights_folder(r.model.from).status();
        if (!found.ok())
            return found.with_context("output.dir, whose trained model the adapters act on: train it first, or name "
                                      "the folder of another body");
    }
    r.model.layers.clear(); // the run has chosen them
    r.tokenizer = TokenizerSection();
    r.tokenizer.kind = "from";
    r.adapter = AdapterSection();
    r.adapters.clear();
    r.combine = CombineSection();
    r.prune = PruneSection();
    r.train.ema_decay = 0.0;
    r.train.load_best_model_at_end = false;
    for (const infer::AdapterUse& use : uses.each) {
        HK_TRY(infer::open_stored_adapter(use.folder).status().with_context(fmt::format("adapter '{}'", use.name)));
        AdaptersSection& section = r.adapters[use.name];
        section.from = use.folder.string();
        section.train = true; // a run without anything to train is refused
    }
    if (uses.each.size() == 1 && uses.each[0].scale == 1.0 && uses.combine.how.empty()) return r;
    infer::Combined together = infer::combination_of(uses, false);
    r.combine.how = std::move(together.how);
    r.combine.config = std::move(together.config);
    return r;
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
