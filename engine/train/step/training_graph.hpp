// The graphs that training and evaluation run, built from the graphs that plugins described.
#pragma once

#include "graph/passes/recompute.hpp"
#include "train/recipe/recipe.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace hekla::train {

// Returns the graph of a step: with gradients of every parameter that the losses reach and that is not frozen,
// simplified; large logits are fused into their cross entropy (graph/passes/fold_cross_entropy.hpp); activations of
// recompute regions, if the graph has any (CompositionSpec::recompute), are recomputed for the gradients, and what
// `also` selects.
// active: the losses that count in the step; empty: all.
Result<graph::Graph> training_graph(const graph::Graph& described,
                                    const std::set<std::string, std::less<>>& frozen = {}, graph::Recompute also = {},
                                    const std::set<std::size_t>& active = {});
graph::Recompute recompute_of(const TrainSection& settings); // train.recompute

// Returns losses and metrics only, simplified, with large logits fused too.
Result<graph::Graph> evaluation_graph(const graph::Graph& described);

// Returns the names of the parameters that are described as without weight decay.
std::vector<std::string> without_decay(const graph::Graph& described);

} // namespace hekla::train
