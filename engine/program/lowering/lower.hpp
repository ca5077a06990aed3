// From a graph to a list of dispatches, without a device. Shape operations become views; every other operation is given
// to its family, which appends dispatches and sets the views of the node's outputs.
#pragma once

#include "program/lowering/lowering.hpp"

#include <string>

namespace hekla::program {

// The error names the first operation that cannot be lowered, and its scope. `graph` must outlive the result's use.
Result<Lowering> lower(const graph::Graph& graph, const Limits& limits, const CompileOptions& options = {});

// The parameter store's state that holds a graph's buffer.
inline std::string buffer_state(std::string_view name) { return "buffer." + std::string(name); }

// A family lowers one node: reads lowering.view(input), appends dispatches, sets lowering.views[output] of every output
// that is not hidden, and of the hidden ones. Optional inputs are graph::kNone. `unsupported` or `invalid_argument` say
// what about the node cannot be done; lower() adds where.
using LowerNode = Status (*)(Lowering& lowering, graph::NodeId node);

Status lower_shape(Lowering& lowering, graph::NodeId node); // reshape transpose slice concat pad broadcast flip unslice
Status lower_leaf(Lowering& lowering, graph::NodeId node);  // input parameter buffer constant fill iota positions ...
Status lower_pointwise(Lowering& lowering, graph::NodeId node); // one operation; groups: pointwise.hpp
Status lower_own(Lowering& lowering, graph::NodeId node);       // a plugin's own operation
Status lower_random(Lowering& lowering, graph::NodeId node);    // random_uniform random_normal

Status lower_matmul(Lowering& lowering, graph::NodeId node);        // matmul linear
Status lower_attention(Lowering& lowering, graph::NodeId node);     // attention attention_gradient attention_cached
Status lower_norm(Lowering& lowering, graph::NodeId node);          // layer_norm rms_norm and their gradients
Status lower_softmax(Lowering& lowering, graph::NodeId node);       // softmax log_softmax softmax_gradient
Status lower_cross_entropy(Lowering& lowering, graph::NodeId node); // cross_entropy cross_entropy_gradient
Status lower_linear_cross_entropy(Lowering& lowering, graph::NodeId node); // and its gradient
Status lower_reduce(Lowering& lowering, graph::NodeId node);               // sum mean max logsumexp argmax
Status lower_embedding(Lowering& lowering, graph::NodeId node);            // embedding embedding_gradient
Status lower_gather(Lowering& lowering, graph::NodeId node);               // gather gather_gradient
Status lower_scan(Lowering& lowering, graph::NodeId node);                 // cumsum top_k
Status lower_rotary(Lowering& lowering, graph::NodeId node);               // rotary
Status lower_recurrent(Lowering& lowering, graph::NodeId node);            // gru lstm and their gradients

} // namespace hekla::program
