// Which values may be stored in 16 bits: those that all readers can read in 16 bits.
#pragma once

#include "graph/graph.hpp"
#include "program/lowering/limits.hpp"
#include "program/lowering/view.hpp"

namespace hekla::program {

// Whether the kernel of this node reads the input where it is stored in 16 bits. Operations that only make views
// do; their results are asked about in turn.
bool reads_16_bits(const graph::Node& node, std::size_t input);

// By value of the graph: no reader, also through views, needs 32 bits. Outputs count as read in 16 bits.
std::vector<bool> readable_as_16_bit(const graph::Graph& graph);

// unsupported, with what to do, where the device cannot store 16 bits and `storage` asks for that.
Status check_storage(const Limits& limits, Storage storage);

} // namespace hekla::program
