// The graphs that training and evaluation run, from those that plugins described.
#pragma once

#include "graph/graph.hpp"

#include <functional>
#include <set>
#include <string>

namespace hekla::train {

// With gradients of every parameter that the losses reach and that is not frozen, simplified; large logits folded into
// their cross entropy (graph/fold_cross_entropy.hpp); activations of recompute regions, where the graph has any
// (CompositionSpec::recompute), are made again for the gradients.
Result<graph::Graph> training_graph(const graph::Graph& described,
                                    const std::set<std::string, std::less<>>& frozen = {});

// Losses and metrics alone, simplified, large logits folded too.
Result<graph::Graph> evaluation_graph(const graph::Graph& described);

} // namespace hekla::train
