// A reward as a recipe or a command names it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hekla::reward {

// One reward of a recipe.
struct RewardSpec {
    std::string name; // in the recipe
    std::string id;   // exact_match, regex, length, arithmetic, lexicon, model, or that of a plugin
    double weight = 1.0;
    double clip = 0.0; // above 0: scores are limited to -clip and clip, before the weight
    nlohmann::json config = nlohmann::json::object();
};

} // namespace hekla::reward
