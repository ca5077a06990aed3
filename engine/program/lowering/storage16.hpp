// Values that may be stored in 16 bits: those that all readers can read in 16 bits.
#pragma once

#include "graph/graph.hpp"
#include "program/lowering/limits.hpp"
#include "program/lowering/view.hpp"

namespace hekla::program {

// Returns whether the kernel of this node can read the input if it is stored in 16 bits. Operations that only create
// views can; the readers of their results are then checked in turn.
bool reads_16_bits(const graph::Node& node, std::size_t input);

// Returns by value of the graph whether no reader, also through views, needs 32 bits. Outputs count as read in 16 bits.
std::vector<bool> readable_as_16_bit(const graph::Graph& graph);

// Returns unsupported, with what to do, if the device does not support the 16-bit `storage`.
Status check_storage(const Limits& limits, Storage storage);

} // namespace hekla::program
