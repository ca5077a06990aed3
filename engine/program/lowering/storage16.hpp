// Which values are stored in 16 bits where that is a program's precision: those that their kernel can write and all
// readers can read so. Sums, statistics, the residual stream and its gradients stay in float32.
#pragma once

#include "graph/graph.hpp"
#include "program/lowering/lowering.hpp"
#include "program/lowering/view.hpp"

namespace hekla::program {

// Returns whether the kernel of this node can read the input if it is stored in 16 bits. Operations that only create
// views can; the readers of their results are then checked in turn.
bool reads_16_bits(const graph::Graph& graph, const graph::Node& node, std::size_t input);

// Whether the operation only creates views of its first input.
bool makes_view(graph::Op op);

// Whether the input is a factor of a product, which is read in the program's precision.
bool is_factor_of_product(const graph::Node& node, std::size_t input);

// Returns by value of the graph whether all readers, also through views, are products, look-ups and operations of
// plugins: the parameters among them can be stored in 16 bits. Outputs count as read in 16 bits.
std::vector<bool> factors_only(const graph::Graph& graph);

// Returns by value of the graph whether it is stored in 16 bits. The same with and without fused kernels. `needed`: by
// node, whether it is computed.
std::vector<bool> stored_in_16_bits(const graph::Graph& graph, const std::vector<bool>& needed);

// Returns whether a product reads this value in 16 bits, also through views.
bool read_as_factor(const Lowering& lowering, graph::ValueId value);

// Returns unsupported, with what to do, if the device does not support the 16-bit `storage`.
Status check_storage(const Limits& limits, Storage storage);

} // namespace hekla::program
