// The kernel families: each lowers the nodes of some operations, which are in a table in lower.cpp.
#pragma once

#include "program/lowering/lowering.hpp"

namespace hekla::program {

// Lowers one node: reads lowering.view(input), appends dispatches, and sets lowering.views[output] of every output,
// including hidden ones. Optional inputs are graph::kNone. Returns `unsupported` or `invalid_argument` with the
// limitation of the kernels; lower() adds the node's location in the graph.
using LowerNode = Status (*)(Lowering& lowering, graph::NodeId node);

Status lower_shape(Lowering& lowering, graph::NodeId node);
Status lower_leaf(Lowering& lowering, graph::NodeId node);
Status lower_pointwise(Lowering& lowering, graph::NodeId node); // one operation; groups: pointwise.hpp
Status lower_own(Lowering& lowering, graph::NodeId node);
Status lower_random(Lowering& lowering, graph::NodeId node);

Status lower_matmul(Lowering& lowering, graph::NodeId node);
Status lower_row_linear(Lowering& lowering, graph::NodeId node);
Status lower_windows(Lowering& lowering, graph::NodeId node);
Status lower_attention(Lowering& lowering, graph::NodeId node);
Status lower_norm(Lowering& lowering, graph::NodeId node);
Status lower_softmax(Lowering& lowering, graph::NodeId node);
Status lower_cross_entropy(Lowering& lowering, graph::NodeId node);
Status lower_linear_cross_entropy(Lowering& lowering, graph::NodeId node);
Status lower_reduce(Lowering& lowering, graph::NodeId node);
Status lower_embedding(Lowering& lowering, graph::NodeId node);
Status lower_gather(Lowering& lowering, graph::NodeId node);
Status lower_scan(Lowering& lowering, graph::NodeId node);
Status lower_rotary(Lowering& lowering, graph::NodeId node);
Status lower_recurrent(Lowering& lowering, graph::NodeId node);

} // namespace hekla::program
