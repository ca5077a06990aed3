// A graph with all of its inputs, to compare its gradients with finite differences and its results on a device with
// float64.
#pragma once

#include "check/trial.hpp"

#include "graph/reference.hpp"
#include "program/lowering/view.hpp"

namespace hekla::check {

struct Probe {
    std::string name;   // for messages: "architecture 'mixer'"
    graph::Graph graph; // as described, with losses and the outputs to compare
    graph::Feeds feeds; // every field and parameter; parameters are rounded to float32
};

// Rounds parameters to float32.
void round_parameters(graph::Feeds& feeds);

// Return the network around one thing that the plugin provides, with a batch of `rows` rows: in evaluation mode with
// every port as an output, and in training mode.
Result<Probe> evaluation_probe(const Trial& trial, const plugin::Provided& provided, int64_t rows);
Result<Probe> training_probe(const Trial& trial, const plugin::Provided& provided, int64_t rows);
// Returns each of the plugin's own operations, alone, in several shapes (operation_tests.cpp).
Result<std::vector<Probe>> operation_probes(Trial& trial);

// Compares gradients of the losses with finite differences, in float64, at some elements. Reports the worst.
Status compare_with_differences(Trial& trial, const Probe& probe);

// Compares results of a device. Errors are relative: in float32 to the largest element of the tensor; in 16 bits, where
// rounding errors add up, by norms of whole tensors.
Status compare_outputs(Trial& trial, program::Runtime& runtime, const Probe& probe, program::Storage precision,
                       bool count_accesses = false);
Status compare_gradients(Trial& trial, program::Runtime& runtime, const Probe& probe, program::Storage precision);

// Compares the bits of the outputs with the invocations of plugins' own GLSL in the usual order, in reverse, and in the
// usual order again.
Status compare_orders(Trial& trial, program::Runtime& runtime, const Probe& probe);

} // namespace hekla::check
