// The initial values of adapters that training continues with, or that stay as their folders have them.
#pragma once

#include "plugin/compose.hpp"
#include "program/program.hpp"
#include "train/recipe.hpp"

#include <functional>
#include <set>
#include <string>

namespace hekla::train {

// Uploads the values of the adapters whose section has `from`, and returns the parameters that got them. Errors: an
// adapter of another body; its tensors are not those that its configuration means.
Result<std::set<std::string>> load_adapters(const Recipe& recipe, const plugin::Composition& composition,
                                            const graph::Graph& described, program::ParameterStore& store,
                                            const std::function<void(const std::string&)>& message);

} // namespace hekla::train
