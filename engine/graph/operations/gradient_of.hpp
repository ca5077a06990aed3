// gradient_of: a gradient as a value of the graph that is being described.
#pragma once

#include "graph/builder.hpp"

namespace hekla::graph {

// Returns whether the node is a gradient_of whose y is computed by a loop: it is expanded when the loop is unrolled.
bool waits_for_loops(const Builder& builder, const Node& node);

} // namespace hekla::graph
