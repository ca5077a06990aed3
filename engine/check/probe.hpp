// A graph that is held against what it must be, with everything that it reads: its gradients against finite
// differences, and what a device makes of it against float64.
#pragma once

#include "check/trial.hpp"

#include "graph/reference.hpp"

namespace hekla::check {

struct Probe {
    std::string name;   // for messages: "architecture 'mixer'"
    graph::Graph graph; // as described: with its losses, and outputs to compare
    graph::Feeds feeds; // every field and parameter; parameters as a device holds them (rounded())
};

// Parameters that float32 can hold.
void round_parameters(graph::Feeds& feeds);

// The network around something that the plugin provides, with a batch of so many rows: as it is evaluated, every port
// an output, and as it is trained.
Result<Probe> evaluation_probe(const Trial& trial, const plugin::Provided& provided, int64_t rows);
Result<Probe> training_probe(const Trial& trial, const plugin::Provided& provided, int64_t rows);
// Every operation of the plugin's own, alone, in several shapes (operation_tests.cpp).
Result<std::vector<Probe>> operation_probes(Trial& trial);

// Gradients of the losses, in float64, against finite differences at some elements. Names the worst.
Status compare_with_differences(Trial& trial, const Probe& probe);

// How results are compared: in float32 each element with the largest of its tensor; in 16 bits, where rounding adds up,
// tensors by their norms.
Status compare_outputs(Trial& trial, program::Runtime& runtime, const Probe& probe, program::Storage precision,
                       bool count_accesses = false);
Status compare_gradients(Trial& trial, program::Runtime& runtime, const Probe& probe, program::Storage precision);

// The outputs' bits with the invocations of plugins' own GLSL in the usual order and in the opposite one, and once more
// in the usual one: all alike.
Status compare_orders(Trial& trial, program::Runtime& runtime, const Probe& probe);

} // namespace hekla::check
