// The number of elements of each loss in a batch, which the loss's sum is divided by.
#pragma once

#include "data/batcher.hpp"
#include "graph/graph.hpp"

#include <span>
#include <vector>

namespace hekla::train {

// Returns the count of each loss of a graph, as the interpreter computes it. Counts depend on fields alone
// (graph::Builder::loss), so a batch can have its counts before its step begins. Thread: any.
Result<std::vector<double>> loss_counts(const graph::Graph& described, std::span<const data::Field> fields);

// Returns the number of tokens that the objective predicts in a batch: those of its field next_ids, or labels, that are
// not -100.
double label_tokens(std::span<const data::Field> fields);

// Returns whether any element counts in a loss.
bool any_label(std::span<const double> counts);

} // namespace hekla::train
