// Convolutions, and pools along one dimension, as the operations that compute them: a convolution is one matrix product
// of the patches of x with the weight, whose gradients are those of the product and of patches.
#pragma once

#include "graph/builder.hpp"

namespace hekla::graph {

// Emits the operations that compute a node of conv1d, conv2d, max_pool1d or avg_pool1d, which was checked.
std::vector<ValueId> expand_convolution(Builder& builder, const Node& node);

} // namespace hekla::graph
