// Initial weights of a run: random, or loaded from a model folder. The folder's head is kept if the task uses the same
// head, otherwise dropped.
#pragma once

#include "base/hash.hpp"
#include "graph/graph.hpp"
#include "plugin/composition/compose.hpp"
#include "program/program.hpp"
#include "train/recipe/recipe.hpp"

#include <functional>
#include <set>
#include <string>

namespace hekla::train {

// Sets the initial parameters. described: the run's graph, with head. message: called with one line about what was
// loaded and what starts random. Returns the names of those that start random. Errors: tensors of the body that are
// missing, unexpected or of other shapes in the folder.
Result<std::vector<std::string>> start_parameters(const Recipe& recipe, const plugin::Registry& registry,
                                                  const plugin::Composition& composition, const graph::Graph& described,
                                                  program::ParameterStore& store,
                                                  const std::function<void(const std::string&)>& message);

// Replaces the trained parameters by initial values of another random stream: prune.reinitialize = "random".
Status draw_again(const Recipe& recipe, const graph::Graph& described, const std::set<std::string, std::less<>>& frozen,
                  program::ParameterStore& store);

// Returns the parameters and buffers that start_parameters() loads from model.from, which is set.
Result<std::set<std::string>> loaded_parameters(const Recipe& recipe, const plugin::Registry& registry,
                                                const plugin::Composition& composition, const graph::Graph& described);

// Loads the teacher's parameters, if there is a teacher, and returns a hash of their values. Errors: tensors that are
// missing, unexpected or of other shapes in its folder.
Result<Hash128> load_teacher(const Recipe& recipe, const plugin::Composition& composition,
                             const graph::Graph& described, program::ParameterStore& store);

} // namespace hekla::train
