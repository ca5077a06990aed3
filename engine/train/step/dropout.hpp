// Training without dropout (train.disable_dropout).
#pragma once

#include "graph/graph.hpp"
#include "plugin/composition/compose.hpp"

#include <span>

namespace hekla::train {

// Returns the default of train.disable_dropout for objectives that do not learn from rollouts: true for those that
// learn from preferences (columns `rejected`, `ranking`, or `completion` with `label`), as in TRL.
bool learns_from_preferences(std::span<const plugin::ColumnNeed> needs);

bool has_dropout(const graph::Graph& graph);

// Returns the graph with every dropout off: of the body, heads, adapters and the value function.
Result<graph::Graph> without_dropout(const graph::Graph& graph);

} // namespace hekla::train
