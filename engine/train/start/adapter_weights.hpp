// The initial values of adapters that training continues with, or that stay as their folders have them.
#pragma once

#include "train/recipe/recipe_adapters.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hekla::graph {
struct Graph;
}
namespace hekla::plugin {
class Composition;
struct StoredTensor;
} // namespace hekla::plugin
namespace hekla::program {
class ParameterStore;
}

namespace hekla::train {

struct LoadedAdapters {
    std::vector<RecipeAdapter> adapters;       // whose section has `from`
    std::vector<plugin::StoredTensor> tensors; // theirs, that are parameters of the model
};
// Uploads the values of the adapters whose section has `from`. Errors: an adapter of another body; its tensors are not
// those that its configuration means.
Result<LoadedAdapters> load_adapters(const Recipe& recipe, const plugin::Composition& composition,
                                     const graph::Graph& described, program::ParameterStore& store,
                                     const std::function<void(const std::string&)>& message);

} // namespace hekla::train
