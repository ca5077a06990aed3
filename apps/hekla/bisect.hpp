// hekla verify --bisect: which operation of a graph does this device compute wrongly? Every node is held against the
// float64 interpreter, given what the device itself computed for its inputs, so that an error is found where it is
// made.
#pragma once

#include "graph/reference.hpp"
#include "program/program.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hekla::app {

struct BisectOptions {
    double bar = 2e-4;            // max|a-b| / max|b| of a node's output, from which on it has left the reference
    std::filesystem::path folder; // of the reproducer; made when one is written
};

struct Bisection {
    bool found = false; // a node leaves the reference
    std::string node;   // the first that does, else the one that is furthest from it: "matmul in block.3/attention"
    std::string output; // which of its outputs: "y"
    double error = 0.0; // of that output; infinite where the device has a NaN
    std::size_t compared = 0;         // nodes
    bool reproduced = false;          // the reproducer's graph, run alone, leaves the reference too
    std::filesystem::path reproducer; // empty: none was written

    std::string text() const;
};

// Runs the graph once on the device with every value kept (so nothing is fused into a kernel of its own), and compares
// in order. The reproducer holds `graph.txt` (the one operation; its inputs are fields), `inputs.safetensors`,
// `device.safetensors`, `reference.safetensors`, and of each dispatch the SPIR-V and a line of `dispatches.txt`.
// Feeds: fields, parameters, step scalars, seed and step.
Result<Bisection> bisect(program::Runtime& runtime, const graph::Graph& graph, const graph::Feeds& feeds,
                         const BisectOptions& options);

} // namespace hekla::app
