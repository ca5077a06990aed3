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
//
// Losses that name their parameters (loss_parameters.hpp) give gradients to these alone; a parameter gets the sum over
// the losses that name it. active: the losses that count in this step, empty: all. The others have no scalar and are
// not in "loss"; a parameter that a loss names and none of the active ones reaches gets a gradient of zeros.
Result<Graph> differentiate(Graph graph, const std::set<std::string, std::less<>>& frozen = {},
                            const std::set<std::size_t>& active = {});

} // namespace hekla::graph
