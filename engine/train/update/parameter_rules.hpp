// A recipe's rules for single parameters: which are frozen, and which have their own learning rate.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::train {

// The layer number in a parameter's name and its position there: "bert.encoder.layer.3.attention..." has 3 at 19.
// Nothing if the name contains no layer.
struct LayerNumber {
    int64_t number = 0;
    std::size_t at = 0, size = 0;
};
std::optional<LayerNumber> layer_number(std::string_view name);

// A parameter's depth in a network, by its name: "bert.encoder.layer.3.attention..." is in layer 3. A decoder's layers
// follow its encoder's.
struct Depth {
    // 0: embeddings; 1 to layers: the layers; layers + 1: everything after them, the head included.
    std::map<std::string, int64_t, std::less<>> of;
    int64_t layers = 0;
};
Depth depths(std::span<const std::string> names, const std::set<std::string>& body);

// Returns the parameters that a selector of a recipe selects: a pattern with '*', "body", "embeddings", or
// "layers:FIRST-LAST" (from 0). names: all parameters; body: those of the body, without the head. key: the selector's
// key ("train.freeze"), for the message about a range outside the network's layers.
Result<std::vector<std::string>> selected_parameters(std::string_view key, const std::string& selector,
                                                     std::span<const std::string> names,
                                                     const std::set<std::string>& body);
// Returns the error for a selector that selects none of `names`.
Status selects_nothing(std::string_view key, const std::string& selector, std::span<const std::string> names);

struct ParameterRules {
    std::set<std::string, std::less<>> frozen;
    bool body_frozen = false;                           // every parameter of the body is frozen
    std::map<std::string, double, std::less<>> factors; // of the learning rate, by name; absent: 1
};

// Returns the rules of a recipe. names: all parameters; body: those of the body, without the head. train.freeze
// contains selectors. train.learning_rates: pattern -> peak learning rate; the first that matches counts.
// train.layer_lr_decay multiplies the rate once per layer after the parameter's. Errors: a pattern that no parameter
// matches; nothing left to train.
Result<ParameterRules> parameter_rules(const Recipe& recipe, std::span<const std::string> names,
                                       const std::set<std::string>& body);

} // namespace hekla::train
