// What a node of a graph costs in a program.
#pragma once

#include <cstdint>
#include <string>

namespace hekla::program {

// The cost of all dispatches of one node of a graph.
struct NodeCost {
    std::string name; // "matmul in block.3/attention"
    uint64_t dispatches = 0;
    double seconds = 0, flops = 0, bytes = 0;
};

} // namespace hekla::program
