#include "train/update/update_rules.hpp"

#include "base/name_pattern.hpp"
#include "hekla/plugin/optimizer.h"
#include "model/parameter_names.hpp"
#include "plugin/instances/optimizers.hpp"
#include "plugin/registry/registry.hpp"
#include "train/recipe/recipe_optimizer.hpp"
#include "train/step/training_graph.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace hekla::train {
namespace {

using nlohmann::json;

// Adds the keys of [train] that mean the same, where the recipe gives no option.
void add_defaults(const TrainSection& train, const plugin::Provided& provided, json& options) {
    const auto add = [&](const char* key, json value) {
        const bool known = std::ranges::find(provided.parameters, key) != provided.parameters.end();
        if (known && !options.contains(key)) options[key] = std::move(value);
    };
    add("weight_decay", train.weight_decay);
    if (provided.id == "adamw") {
        add("betas", {train.adam_beta1, train.adam_beta2});
        add("eps", train.adam_epsilon);
    }
    if (provided.id == "sgd") add("momentum", train.momentum);
}

// The tables of embeddings, whose rows are looked up.
std::set<std::string> tables_of(const graph::Graph& graph) {
    std::set<std::string> names;
    for (const graph::Node& node : graph.nodes) {
        if (node.op != graph::Op::embedding) continue;
        graph::ValueId table = node.inputs[0];
        while (graph.producer(table).op == graph::Op::reshape || graph.producer(table).op == graph::Op::transpose)
            table = graph.producer(table).inputs[0];
        if (graph.producer(table).op == graph::Op::parameter) names.insert(graph.producer(table).text("name"));
    }
    return names;
}

// Refuses keys of the recipe that only the kernel of adamw and sgd has. who: the optimizer that is not one of them.
Status check_without_kernel(const Recipe& recipe, const std::string& who) {
    const auto refuse = [&](const std::string& key, const std::string& instead) {
        return unsupported(fmt::format("{} works where one kernel updates all parameters, adamw or sgd, and "
                                       "[optimizer] gives some to '{}': {}",
                                       key, who, instead));
    };
    const TrainSection& t = recipe.train;
    if (t.moments_dtype != "float32")
        return refuse(fmt::format("train.moments_dtype = \"{}\"", t.moments_dtype), "remove the key");
    if (t.moments_memory != "device")
        return refuse(fmt::format("train.moments_memory = \"{}\"", t.moments_memory), "remove the key");
    if (!recipe.prune.from_mask.empty())
        return refuse(fmt::format("prune.from_mask = \"{}\"", recipe.prune.from_mask),
                      "remove it, or train the masked network with adamw or sgd");
    return {};
}

// name: of the optimizer; key: of the option.
Result<double> number_of(const json& value, const std::string& name, const char* key) {
    if (value.is_number()) return value.get<double>();
    return invalid_argument(fmt::format("optimizer '{}': {} is {}; expected a number", name, key,
                                        value.dump(-1, ' ', false, json::error_handler_t::replace)));
}

// An optimizer of the recipe: its options for the plugin, and its learning rate.
struct Named {
    plugin::PartSpec spec;
    double rate = 0.0;
};

Result<Named> named(const Recipe& recipe, const plugin::Registry& registry, const std::string& name) {
    HK_ASSIGN(const plugin::Registry::Entry entry, registry.find(HK_OPTIMIZER_INTERFACE, name));
    json options = optimizer_options(recipe, name);
    double rate = recipe.train.learning_rate;
    if (options.contains("lr")) {
        HK_ASSIGN(rate, number_of(options["lr"], name, "lr"));
        if (!(rate >= 0.0) || recipe.train.learning_rate <= 0.0)
            return invalid_argument(fmt::format("optimizer '{}': lr is {}; expected 0 or more, and a "
                                                "train.learning_rate above 0, whose schedule it follows",
                                                name, rate));
        options.erase("lr");
    }
    add_defaults(recipe.train, *entry.provided, options);
    return Named{{name, std::move(options)}, rate};
}

// A parameter and the optimizer that updates it.
struct Chosen {
    std::string parameter, optimizer;
    plugin::OptimizedParameter seen;
};

// Chooses the optimizer of every trained parameter, by rules and by what optimizers take.
Result<std::vector<Chosen>> choose(const Recipe& recipe, const graph::Graph& described, const ParameterRules& rules,
                                   plugin::Optimizers& plugins, const std::map<std::string, Named>& all) {
    const std::vector<std::string> no_decay = without_decay(described);
    const std::set<std::string> tables = tables_of(described);
    const auto ordered = optimizer_rules(recipe);
    std::set<std::string> matched;
    std::vector<std::string> trained;
    std::vector<Chosen> chosen;
    for (const auto& [name, value] : described.parameters()) {
        if (rules.frozen.contains(name) || name.starts_with(plugin::kTeacher)) continue;
        trained.push_back(name);
        Chosen one{name, "", {described.shape(value), 0}};
        const bool decays = one.seen.shape.rank() >= 2 && std::ranges::find(no_decay, name) == no_decay.end();
        one.seen.flags = (decays ? HK_OPTIMIZED_DECAYS : 0u) | (tables.contains(name) ? HK_OPTIMIZED_TABLE : 0u);
        for (const auto& [pattern, optimizer] : ordered) {
            if (!hekla::matches(pattern, name)) continue;
            matched.insert(pattern);
            if (one.optimizer.empty()) one.optimizer = optimizer;
        }
        if (one.optimizer.empty()) one.optimizer = optimizer_names(recipe).front();
        HK_ASSIGN(const bool taken, plugins.takes(one.optimizer, one.seen));
        if (!taken && !all.contains(kRestOptimizer))
            return failed_precondition(fmt::format("optimizer '{}' does not take '{}' {}, and the plugin '{}', which "
                                                   "updates such parameters, is not installed",
                                                   one.optimizer, name, one.seen.shape.text(), kRestOptimizer));
        if (!taken) one.optimizer = kRestOptimizer;
        chosen.push_back(std::move(one));
    }
    for (const auto& [pattern, optimizer] : ordered)
        if (!matched.contains(pattern)) return selects_nothing("optimizer.rules", pattern, trained);
    return chosen;
}

// Returns "optimizer: muon updates 8 parameters, adamw 12", in the order of the names.
std::string summary_of(const std::vector<Chosen>& chosen, const std::vector<std::string>& names) {
    std::string summary;
    for (const std::string& name : names) {
        const auto count = std::ranges::count(chosen, name, &Chosen::optimizer);
        if (count == 0) continue;
        summary += summary.empty() ? fmt::format("optimizer: {} updates {} parameters", name, count)
                                   : fmt::format(", {} {}", name, count);
    }
    return summary;
}

// Whether one kernel updates all parameters.
bool has_kernel(const std::vector<Chosen>& chosen, const Named& main) {
    const std::string& id = main.spec.id;
    const bool known =
        id == "adamw" || (id == "sgd" && main.spec.config.value("dampening", json(0)) == 0); // others are graphs
    return known && std::ranges::all_of(chosen, [&](const Chosen& one) { return one.optimizer == id; });
}

} // namespace

Result<UpdateRules> UpdateRules::create(const Recipe& recipe, const plugin::Registry& registry,
                                        const graph::Graph& described, const ParameterRules& rules, const Log& log) {
    UpdateRules made;
    made.settings_ = recipe.train;
    made.factors_ = rules.factors;
    if (!names_optimizers(recipe)) return made;

    std::vector<std::string> names = optimizer_names(recipe);
    if (std::ranges::find(names, kRestOptimizer) == names.end() &&
        registry.provides(HK_OPTIMIZER_INTERFACE, kRestOptimizer))
        names.emplace_back(kRestOptimizer);
    std::map<std::string, Named> all;
    std::vector<plugin::PartSpec> specs;
    for (const std::string& name : names) {
        HK_ASSIGN(all[name], named(recipe, registry, name));
        specs.push_back(all[name].spec);
    }
    HK_ASSIGN(std::shared_ptr<plugin::Optimizers> plugins, plugin::Optimizers::create(registry, specs, log));
    HK_ASSIGN(const std::vector<Chosen> chosen, choose(recipe, described, rules, *plugins, all));
    made.summary_ = summary_of(chosen, names);
    const double base = recipe.train.learning_rate;
    for (const Chosen& one : chosen) {
        const bool has_rate = std::ranges::any_of(
            recipe.train.learning_rates, [&](const auto& rate) { return hekla::matches(rate.first, one.parameter); });
        const double rate = all.at(one.optimizer).rate;
        if (!has_rate && rate != base) made.factors_.try_emplace(one.parameter, 1.0).first->second *= rate / base;
    }

    const Named& main = all.at(names.front());
    if (has_kernel(chosen, main)) {
        HK_TRY(made.set_kernel(main.spec.id, main.spec.config));
        return made;
    }
    const auto other = std::ranges::find_if(chosen, [](const Chosen& one) { return one.optimizer != kRestOptimizer; });
    HK_TRY(check_without_kernel(recipe, other != chosen.end() ? other->optimizer : names.front()));
    for (const Chosen& one : chosen) {
        Result<const plugin::UpdateGraph*> update = plugins->update(one.optimizer, one.seen);
        if (!update.ok()) return update.status().with_context(fmt::format("the update of '{}'", one.parameter));
        const auto factor = made.factors_.find(one.parameter);
        made.updates_.push_back({one.parameter, update.value(), factor != made.factors_.end() ? factor->second : 1.0});
    }
    made.plugins_ = std::move(plugins);
    return made;
}

Status UpdateRules::set_kernel(const std::string& name, const json& options) {
    const auto read = [&](const json& value, const char* key, double& to) -> Status {
        HK_ASSIGN(to, number_of(value, name, key));
        return {};
    };
    TrainSection& s = settings_;
    s.optim = name;
    HK_TRY(read(options.at("weight_decay"), "weight_decay", s.weight_decay));
    if (name == "sgd") {
        nesterov_ = options.value("nesterov", json(false)) == true;
        return read(options.at("momentum"), "momentum", s.momentum);
    }
    HK_TRY(read(options.at("betas").at(0), "betas", s.adam_beta1));
    HK_TRY(read(options.at("betas").at(1), "betas", s.adam_beta2));
    return read(options.at("eps"), "eps", s.adam_epsilon);
}

uint64_t UpdateRules::state_bytes() const {
    uint64_t bytes = 0;
    for (const PlannedUpdate& update : updates_)
        for (const plugin::UpdateState& state : update.update->states)
            bytes += static_cast<uint64_t>(state.shape.elements()) * sizeof(float);
    return bytes;
}

OptimizerRules UpdateRules::rules(std::vector<std::string> no_decay) const {
    OptimizerRules rules;
    rules.no_decay = std::move(no_decay);
    rules.factors = factors_;
    rules.nesterov = nesterov_;
    rules.updates = by_kernel() ? nullptr : &updates_;
    return rules;
}

} // namespace hekla::train
