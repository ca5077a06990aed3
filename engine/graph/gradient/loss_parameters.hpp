// Losses that name the parameters which learn from them, by the operation for_parameters.
#pragma once

#include "graph/graph.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace hekla::graph {

using ParameterNames = std::set<std::string, std::less<>>;

// Losses that give gradients to the same parameters.
struct LossGroup {
    std::vector<std::size_t> losses; // of Graph::losses, ascending
    // Those that are named and not frozen. Unused where losses name none: then the only group trains all parameters.
    ParameterNames parameters{};
};

// Returns whether the losses name their parameters.
bool losses_name_parameters(const Graph& graph);

// Returns the groups of a graph's losses, in the order of their first ones. Errors: a name that no parameter matches,
// or only frozen ones; a loss without names next to others with them; for_parameters that is not the sum of a loss.
Result<std::vector<LossGroup>> loss_groups(const Graph& graph, const ParameterNames& frozen = {});

} // namespace hekla::graph
