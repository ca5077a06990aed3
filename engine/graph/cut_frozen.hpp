// A graph cut where its frozen part ends: what the fields and frozen parameters alone decide is computed once an
// example and then read as features.
#pragma once

#include "graph/graph.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hekla::graph {

struct FrozenCut {
    Graph below; // outputs: the features, by their names
    Graph above; // the same losses and metrics, computed from the features as fields
    std::vector<std::string> features;
};

// Nothing where no value could be kept: nothing is frozen, something random stands before it, or a value has no row of
// its own for every example (its first dimension is not `batch`).
Result<std::optional<FrozenCut>> cut_frozen(const Graph& graph, const std::set<std::string, std::less<>>& frozen,
                                            int64_t batch);

} // namespace hekla::graph
