// The graph that a training step runs, from the one that plugins described.
#pragma once

#include "graph/graph.hpp"

namespace hekla::train {

// With gradients of every parameter that the losses reach, simplified; activations of recompute regions, where the
// graph has any (CompositionSpec::recompute), are made again for the gradients.
Result<graph::Graph> training_graph(const graph::Graph& described);

} // namespace hekla::train
