// Reverse-mode differentiation: adds the gradients of the parameters to a graph with losses.
#pragma once

#include "graph/graph.hpp"

#include <functional>
#include <set>
#include <string>

namespace hekla::graph {

// Adds, for loss terms i = 0, 1, ...: a step scalar "loss_scale.i" (the host sets weight / count over all
// micro-batches, 0 where the count is 0), outputs "loss" (float32 [], the sum of loss_scale.i * sum_i), "loss_sum.i",
// "loss_count.i", and "grad.NAME" (the parameter's shape, float32) for every parameter that a loss reaches. The others
// get no output; neither do those in `frozen`, and values needed only for them are not computed.
Result<Graph> differentiate(Graph graph, const std::set<std::string, std::less<>>& frozen = {});

} // namespace hekla::graph
