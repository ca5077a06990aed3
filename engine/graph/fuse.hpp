// Pointwise fusion: which nodes one generated kernel computes, so that values used only inside are never stored. Each
// node still computes what it says, in its own order and rounding; fusion changes no bit.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

struct FuseLimits {
    std::size_t nodes = 96;  // of a group: keeps generated shaders small enough to compile quickly
    std::size_t inputs = 24; // values read from memory
    std::size_t outputs = 8;
};

// What is computed together. `nodes` are pointwise operations of one output shape, in the graph's order, or one node of
// any other kind.
struct Group {
    std::vector<NodeId> nodes;
    std::vector<ValueId> inputs;  // made outside, each once, in the order of first use; not the numbers
    std::vector<ValueId> numbers; // fills that the nodes read: literals in a kernel, never memory
    std::vector<ValueId> outputs; // made inside and needed outside: by another group, an output, a loss or a metric
    bool pointwise = false;
    Shape shape; // of the iteration, where pointwise
};

struct FuseStats {
    std::size_t pointwise_nodes = 0;
    std::size_t pointwise_groups = 0;
    int64_t stored_before = 0; // elements of pointwise results, each node by itself
    int64_t stored_after = 0;
    int64_t read_before = 0; // elements of operands, each as often as a kernel reads it
    int64_t read_after = 0;
};

struct Fusion {
    std::vector<Group> groups; // every node but leaves is in exactly one; in an order in which they can run
    FuseStats stats;
};

// A node joins the groups of its operands where shapes are equal and nobody has to read their results before it runs,
// so groups run where their last node stands and nothing moves further back than that.
Fusion fuse(const Graph& graph, const FuseLimits& limits = {});

} // namespace hekla::graph
