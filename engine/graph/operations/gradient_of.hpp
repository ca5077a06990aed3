// gradient_of: a gradient as a value of the graph that is being described.
#pragma once

#include "graph/builder.hpp"

namespace hekla::graph {

// Returns whether the node is a gradient_of whose y is computed by a loop: it is expanded when the loop is unrolled.
bool waits_for_loops(const Builder& builder, const Node& node);

// Emits the operations that compute the gradient of the sum of y, the first input of a checked node, with respect to x,
// its second. Error: y does not depend on x, or an operation between them has no gradient.
std::vector<ValueId> expand_gradient_of(Builder& builder, const Node& node);

} // namespace hekla::graph
