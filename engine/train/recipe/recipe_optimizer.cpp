#include "train/recipe/recipe_optimizer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {

bool names_optimizers(const Recipe& recipe) {
    const OptimizerSection& o = recipe.optimizer;
    return !o.name.empty() || !o.rules.empty() || !o.options.empty();
}

// A table does not keep its order, so patterns are sorted, longest first.
std::vector<std::pair<std::string, std::string>> optimizer_rules(const Recipe& recipe) {
    std::vector<std::pair<std::string, std::string>> rules(recipe.optimizer.rules.begin(),
                                                           recipe.optimizer.rules.end());
    std::ranges::stable_sort(rules, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    return rules;
}

std::vector<std::string> optimizer_names(const Recipe& recipe) {
    std::vector<std::string> names{recipe.optimizer.name.empty() ? recipe.train.optim : recipe.optimizer.name};
    for (const auto& [pattern, name] : optimizer_rules(recipe))
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    return names;
}

nlohmann::json optimizer_options(const Recipe& recipe, const std::string& name) {
    const nlohmann::json& all = recipe.optimizer.options;
    if (name != optimizer_names(recipe).front()) return all.value(name, nlohmann::json::object());
    nlohmann::json own = nlohmann::json::object();
    for (const auto& [key, value] : all.items())
        if (!value.is_object()) own[key] = value;
    return own;
}

Status check_optimizer(const Recipe& recipe) {
    const OptimizerSection& o = recipe.optimizer;
    if (!o.name.empty() && recipe.train.optim != TrainSection().optim && recipe.train.optim != o.name)
        return invalid_argument(fmt::format("train.optim = \"{}\" and optimizer.name = \"{}\" both choose the "
                                            "optimizer: remove train.optim",
                                            recipe.train.optim, o.name));
    const std::vector<std::string> names = optimizer_names(recipe);
    for (const auto& [key, value] : o.options.items()) {
        if (!value.is_object()) continue;
        if (key == names.front())
            return invalid_argument(fmt::format("[optimizer.{}]: '{}' is the optimizer of the run: write its options "
                                                "in [optimizer] itself",
                                                key, key));
        if (key != kRestOptimizer && std::ranges::find(names, key) == names.end())
            return invalid_argument(fmt::format("[optimizer.{}]: optimizer.rules names no optimizer '{}' (used are "
                                                "{}): remove the table, or add a rule",
                                                key, key, fmt::join(names, ", ")));
    }
    return {};
}

} // namespace hekla::train
