// Which model a recipe means: architecture, head and objective with their configurations, completed by what the
// tokenizer and the data's classes decide.
#pragma once

#include "plugin/compose.hpp"
#include "text/tokenizer.hpp"
#include "train/recipe.hpp"

#include <span>
#include <string>

namespace hekla::train {

// classes: of the data, in the order of their numbers; may be empty. Errors: a folder that is no model, a vocabulary
// that is smaller than the tokenizer's, a number of classes that contradicts the data's.
Result<plugin::CompositionSpec> model_spec(const Recipe& recipe, const plugin::Registry& registry,
                                           const text::Tokenizer& tokenizer, std::span<const std::string> classes,
                                           bool numbers);

// An objective's class_weights = "balanced" as numbers: examples / (classes * examples of the class), as scikit-learn
// has it. counts: of each class of the training data. Error: there are no classes.
Status balance_classes(std::span<const uint64_t> counts, nlohmann::json& objective_config);

} // namespace hekla::train
