// Splits a graph at the end of its frozen part: values that depend on fields and frozen parameters alone are computed
// once per example and then read as features.
#pragma once

#include "graph/graph.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hekla::graph {

struct FrozenCut {
    Graph below; // outputs: the features, by name
    Graph above; // the same losses and metrics, computed from the features as fields
    std::vector<std::string> features;
    double share = 0.0; // of the forward pass's multiply-adds in products and attention: those of `below`
};

// Returns nothing if no value can be stored: nothing is frozen, a value depends on random numbers, or it does not have
// one row per example (its first dimension is not `batch`). Pointwise operations and norms of features are computed
// again instead of stored as features of their own.
Result<std::optional<FrozenCut>> cut_frozen(const Graph& graph, const std::set<std::string, std::less<>>& frozen,
                                            int64_t batch);

} // namespace hekla::graph
