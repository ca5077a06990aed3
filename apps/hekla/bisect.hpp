// hekla doctor --test --bisect: finds the first operation of a graph that this device computes wrongly. Every node is
// compared with the float64 interpreter given the device's own inputs of that node, so that an error is found where it
// arises.
#pragma once

#include "graph/reference.hpp"
#include "program/program.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hekla::app {

struct BisectOptions {
    double bar = 2e-4;            // max|a-b| / max|b| of a node's output; above it the node is wrong
    std::filesystem::path folder; // of the reproducer; created when one is written
};

struct Bisection {
    bool found = false;       // a node is wrong
    std::string node;         // the first wrong one, else the one with the largest error: "matmul in block.3/attention"
    std::string output;       // which of its outputs: "y"
    double error = 0.0;       // of that output; infinite for a NaN of the device
    std::size_t compared = 0; // nodes
    bool reproduced = false;  // the reproducer's graph is wrong when it runs alone
    std::filesystem::path reproducer; // empty: none was written

    std::string text() const;
};

// Runs the graph once on the device with every value as an output (so nothing is fused), and compares in order. The
// reproducer holds `graph.txt` (the one operation; its inputs are fields), `inputs.safetensors`, `device.safetensors`,
// `reference.safetensors`, and of each dispatch the SPIR-V and a line of `dispatches.txt`. Feeds: fields, parameters,
// step scalars, seed and step.
Result<Bisection> bisect(program::Runtime& runtime, const graph::Graph& graph, const graph::Feeds& feeds,
                         const BisectOptions& options);

} // namespace hekla::app
