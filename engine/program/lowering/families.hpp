// The kernel families: each lowers the nodes of some operations.
#pragma once

#include "program/lowering/lowering.hpp"

namespace hekla::program {

// Lowers one node: reads lowering.view(input), appends dispatches, and sets lowering.views[output] of every output,
// including hidden ones. Optional inputs are graph::kNone. Returns `unsupported` or `invalid_argument` with the
// limitation of the kernels; lower() adds the node's location in the graph.
using LowerNode = Status (*)(Lowering& lowering, graph::NodeId node);

Status lower_shape(Lowering& lowering, graph::NodeId node); // reshape transpose slice pad broadcast flip unslice
Status lower_leaf(Lowering& lowering, graph::NodeId node);  // input parameter buffer constant fill iota positions ...
Status lower_pointwise(Lowering& lowering, graph::NodeId node); // one operation; groups: pointwise.hpp
Status lower_own(Lowering& lowering, graph::NodeId node);       // a plugin's own operation
Status lower_random(Lowering& lowering, graph::NodeId node);    // random_uniform random_normal truncated_normal

Status lower_matmul(Lowering& lowering, graph::NodeId node);        // matmul linear
Status lower_row_linear(Lowering& lowering, graph::NodeId node);    // row_linear and its gradient
Status lower_windows(Lowering& lowering, graph::NodeId node);       // patches, pools and their gradients
Status lower_attention(Lowering& lowering, graph::NodeId node);     // attention attention_gradient attention_cached
Status lower_norm(Lowering& lowering, graph::NodeId node);          // layer_norm rms_norm and their gradients
Status lower_softmax(Lowering& lowering, graph::NodeId node);       // softmax log_softmax softmax_gradient
Status lower_cross_entropy(Lowering& lowering, graph::NodeId node); // cross_entropy cross_entropy_gradient
Status lower_linear_cross_entropy(Lowering& lowering, graph::NodeId node); // and its gradient
Status lower_reduce(Lowering& lowering, graph::NodeId node);               // sum mean max logsumexp argmax
Status lower_embedding(Lowering& lowering, graph::NodeId node);            // embedding embedding_gradient
Status lower_gather(Lowering& lowering, graph::NodeId node);               // gather scatter_add scatter
Status lower_scan(Lowering& lowering, graph::NodeId node);                 // cumsum cumprod ... top_k
Status lower_rotary(Lowering& lowering, graph::NodeId node);               // rotary
Status lower_recurrent(Lowering& lowering, graph::NodeId node);            // gru lstm and their gradients

} // namespace hekla::program
