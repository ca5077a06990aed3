// Convolutions, and pools along one dimension, as the operations that compute them: a convolution is one matrix product
// of the patches of x with the weight, whose gradients are those of the product and of patches.
#pragma once

#include "graph/builder.hpp"

namespace hekla::graph {

// Returns whether the builder replaces the operation by others.
bool is_expanded(Op op);

// Emits the operations that compute a node of such an operation, which was checked.
std::vector<ValueId> expand(Builder& builder, const Node& node);

} // namespace hekla::graph
