// Pointwise fusion: groups nodes into generated kernels, so that values used only inside a group are not stored. Each
// node is still computed with the same rounding, so that fusion does not change results.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

struct FuseLimits {
    std::size_t nodes = 96;  // limit per group, so that generated shaders compile quickly
    std::size_t inputs = 24; // limit of values read from memory per group
    std::size_t outputs = 8;
};

// Nodes that are computed together: pointwise operations of one output shape, in the graph's order, or one node of any
// other kind.
struct Group {
    std::vector<NodeId> nodes;
    std::vector<ValueId> inputs;  // values from outside, each once, in the order of first use; without `numbers`
    std::vector<ValueId> numbers; // fills that the nodes read; literals in the kernel
    std::vector<ValueId> outputs; // values needed outside: by another group, an output, a loss or a metric
    bool pointwise = false;
    Shape shape; // of the iteration, if pointwise
};

struct FuseStats {
    std::size_t pointwise_nodes = 0;
    std::size_t pointwise_groups = 0;
    int64_t stored_before = 0; // elements of pointwise results without fusion
    int64_t stored_after = 0;
    int64_t read_before = 0; // elements of operands, counted for each kernel that reads them
    int64_t read_after = 0;
};

struct Fusion {
    std::vector<Group> groups; // every node except leaves is in exactly one; in a valid order of execution
    FuseStats stats;
};

// A node joins the groups of its operands if the shapes are equal and no other node reads their results before it. A
// group runs at the position of its last node.
Fusion fuse(const Graph& graph, const FuseLimits& limits = {});

} // namespace hekla::graph
