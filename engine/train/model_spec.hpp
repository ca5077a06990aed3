// Which model a recipe means: architecture, head and objective with their configurations, completed by what the
// tokenizer and the data's classes decide.
#pragma once

#include "plugin/compose.hpp"
#include "text/tokenizer.hpp"
#include "train/recipe.hpp"

#include <span>
#include <string>

namespace hekla::train {

// An objective's configuration before the data is known: without class_weights = "balanced", which stands for numbers
// that the data decides.
nlohmann::json objective_before_data(const Recipe& recipe);

// What a recipe's data decides about its model.
struct DataFacts {
    std::span<const std::string> classes = {};   // in the order of their numbers; may be empty
    std::span<const uint64_t> class_counts = {}; // of the training data
    bool numbers = false;                        // the target of a row is a number
};

// class_weights = "balanced" becomes examples / (classes * examples of the class), as scikit-learn has it. Errors: a
// folder that is not a model, a vocabulary that is smaller than the tokenizer's, a number of classes that contradicts
// the data's, classes to be balanced where there are none.
Result<plugin::CompositionSpec> model_spec(const Recipe& recipe, const plugin::Registry& registry,
                                           const text::Tokenizer& tokenizer, const DataFacts& data);

} // namespace hekla::train
