// The adapters of a recipe, of [adapter] or of [adapters.NAME].
#pragma once

#include "infer/adapters/adapter_uses.hpp"
#include "infer/adapters/stored_adapter.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "train/recipe/recipe.hpp"

#include <optional>

namespace hekla::train {

bool has_adapters(const Recipe& recipe);

// Returns the names of [adapters.NAME], in order.
std::vector<std::string> adapter_names(const Recipe& recipe);

// Checks the rules of [adapter], [adapters.NAME] and [combine]. No file is read.
Status check_adapters(const Recipe& recipe);

// Returns the recipe of an evaluation of these adapters instead of the recipe's own, for Purpose::initial. Their body
// is model.from if the recipe trains adapters, and what its run has trained otherwise. Errors: that body or an
// adapter's folder is not there.
Result<Recipe> with_adapters(const Recipe& recipe, const infer::AdapterUses& uses);

struct RecipeAdapter {
    plugin::AdapterSpec spec;                      // with the configuration as it is given, without defaults
    std::string key;                               // "adapter", "adapters.NAME": for messages
    std::optional<infer::StoredAdapter> from = {}; // where its values come from
};
// Errors: those of the folders.
Result<std::vector<RecipeAdapter>> read_adapters(const Recipe& recipe);

} // namespace hekla::train
