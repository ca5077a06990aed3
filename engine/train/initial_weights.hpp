// Initial weights of a run: random, or loaded from a model folder. The folder's head is kept if the task uses the same
// head, otherwise dropped.
#pragma once

#include "base/hash.hpp"
#include "graph/graph.hpp"
#include "plugin/compose.hpp"
#include "program/program.hpp"
#include "train/recipe.hpp"

#include <functional>
#include <string>

namespace hekla::train {

// described: the run's graph, with head. message: called with one line about what was loaded and what starts random.
// Gives the names of those that start random. Errors: tensors of the body that the folder lacks, has too many of, or in
// other shapes.
Result<std::vector<std::string>> start_parameters(const Recipe& recipe, const plugin::Registry& registry,
                                                  const plugin::Composition& composition, const graph::Graph& described,
                                                  program::ParameterStore& store,
                                                  const std::function<void(const std::string&)>& message);

// Loads the teacher's parameters, where there is one, and gives a hash of their values. Errors: its folder lacks
// tensors, or has too many, or in other shapes.
Result<Hash128> load_teacher(const Recipe& recipe, const plugin::Composition& composition,
                             const graph::Graph& described, program::ParameterStore& store);

} // namespace hekla::train
