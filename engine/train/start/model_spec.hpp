// The model of a recipe: architecture, head and objective with their configurations, completed by the tokenizer and the
// data's classes.
#pragma once

#include "plugin/composition/composition_spec.hpp"
#include "train/recipe/recipe.hpp"

#include <span>
#include <string>

namespace hekla::plugin {
class Registry;
}
namespace hekla::text {
class Tokenizer;
}

namespace hekla::train {

// Returns an objective's configuration before the data is known: without class_weights = "balanced", whose values
// depend on the data.
nlohmann::json objective_before_data(const Recipe& recipe);

// Properties of the data that determine the model.
struct DataFacts {
    std::span<const std::string> classes = {};   // in the order of their ids; may be empty
    std::span<const uint64_t> class_counts = {}; // of the training data
    bool numbers = false;                        // the target of a row is a number
};

// Returns the model of a recipe. class_weights = "balanced" becomes examples / (classes * examples of the class), as in
// scikit-learn. Errors: a folder that is not a model, a vocabulary that is smaller than the tokenizer's, a number of
// classes that contradicts the data's, balanced weights without classes. rules: by which texts become ids.
Result<plugin::CompositionSpec> model_spec(const Recipe& recipe, const plugin::Registry& registry,
                                           const text::Tokenizer& tokenizer, const DataFacts& data,
                                           const text::TextRules& rules = {});

} // namespace hekla::train
