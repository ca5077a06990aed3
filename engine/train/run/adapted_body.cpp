#include "train/run/adapted_body.hpp"

#include "base/json.hpp"
#include "base/name_pattern.hpp"
#include "infer/open/base_model.hpp"
#include "infer/open/weights_folder.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/start/initial_weights.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

namespace hekla::train {

using nlohmann::json;

Result<AdaptedBody> AdaptedBody::freeze(const Recipe& recipe, const plugin::Registry& registry,
                                        const plugin::CompositionSpec& spec, const plugin::Composition& composition,
                                        const graph::Graph& graph, const std::vector<plugin::BatchField>& fields,
                                        const std::vector<std::string>& names, const std::set<std::string>& body,
                                        ParameterRules& rules) {
    AdaptedBody adapted;
    plugin::BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    request.fields = fields;
    HK_ASSIGN(const plugin::Described described, composition.describe(request));
    if (std::ranges::none_of(described.sites, [](const plugin::Site& s) { return s.wanted || s.trained != 0; })) {
        std::vector<std::string> sites;
        for (const plugin::Site& site : described.sites)
            if (std::ranges::find(sites, site.name) == sites.end()) sites.push_back(site.name);
        return invalid_argument(fmt::format(
            "{} acts at none of the modules of {}, which are {}{}: change the keys of [adapter] that select modules",
            spec.adapters.size() == 1 ? plugin::what_of(spec.adapters[0]) : "every adapter", recipe.model.from,
            fmt::join(std::span(sites).first(std::min<std::size_t>(8, sites.size())), ", "),
            sites.size() > 8 ? fmt::format(" and {} more", sites.size() - 8) : ""));
    }
    std::set<std::string> loaded = body;
    if (!recipe.model.from.empty()) {
        HK_ASSIGN(adapted.base_, infer::base_of(recipe.model.from));
        HK_ASSIGN(const std::set<std::string> stored, loaded_parameters(recipe, registry, composition, graph));
        loaded.insert(stored.begin(), stored.end());
    }
    for (const plugin::Site& site : described.sites)
        for (const std::string& name : site.trained_parameters()) loaded.erase(name);
    json saved_modules = json::array();
    for (const plugin::AdapterSpec& adapter : spec.adapters) {
        if (!adapter.trained) {
            const std::string prefix = fmt::format("{}{}.", plugin::kAdapter, adapter.name);
            for (const std::string& name : names)
                if (name.starts_with(prefix)) rules.frozen.insert(name);
            continue;
        }
        for (const json& one : adapter.part.config.value("modules_to_save", json::array()))
            saved_modules.push_back(one);
    }
    for (const json& one : saved_modules) {
        const std::string module = one.is_string() ? one.get<std::string>() : std::string();
        std::size_t saved = 0;
        for (const std::string& name : names) {
            // The module's own parameters, and those of modules inside it.
            const std::string dotted = "." + name;
            const bool inside = hekla::matches(module + ".*", name) || hekla::matches(module, name) ||
                                dotted.find("." + module + ".") != std::string::npos;
            if (!inside || module.empty() || name.starts_with(plugin::kAdapter)) continue;
            ++saved;
            loaded.erase(name);
        }
        if (saved == 0)
            return invalid_argument(fmt::format("adapter.modules_to_save: {} matches no module of {}: `hekla inspect` "
                                                "lists the names of parameters",
                                                one.dump(), recipe.model.from));
    }
    for (const std::string& name : names)
        if (loaded.contains(name)) rules.frozen.insert(name);
    for (const graph::Node& node : graph.nodes)
        if (node.op == graph::Op::parameter && (node.integer("flags") & HK_INITIAL_FIXED) != 0)
            rules.frozen.insert(node.text("name"));
    // A run without steps writes the folder of adapters that are combined as they are.
    if (rules.frozen.size() == names.size() && recipe.train.max_steps != 0)
        return invalid_argument(
            "nothing is trained: the adapters stay as their folders have them, and what combines them "
            "has no parameters to train; set adapters.NAME.train = true for one, or "
            "train.max_steps = 0 to combine them without training");
    adapted.names_ = std::move(loaded);
    return adapted;
}

Result<std::string> AdaptedBody::config_text(const std::string& of_model, const std::filesystem::path& folder) const {
    if (!is_kept()) return of_model;
    HK_ASSIGN(nlohmann::ordered_json config, parse_ordered_json_object(of_model, "config.json"));
    config["hekla"]["base"] = infer::base_from(base_, folder);
    return config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Status check_tokenizer_of_body(const Recipe& recipe, const text::Tokenizer& tokenizer) {
    if (!has_adapters(recipe) || recipe.model.from.empty()) return {}; // a plugin check has no trained body
    HK_ASSIGN(const std::filesystem::path body, infer::weights_folder(recipe.model.from));
    const Result<std::unique_ptr<text::Tokenizer>> own = text::load_tokenizer(body);
    if (own.ok() && own.value()->hash() != tokenizer.hash())
        return invalid_argument(fmt::format("the tokenizer of [tokenizer] is not that of model.from = {}, and adapters "
                                            "leave the embeddings of its tokens as they are: set tokenizer.from to "
                                            "that folder, or remove [tokenizer]",
                                            recipe.model.from));
    return {};
}

} // namespace hekla::train
