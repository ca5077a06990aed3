// Copies a graph with changes; every pass is based on it.
#pragma once

#include "graph/builder.hpp"

#include <functional>

namespace hekla::graph {

// Copies nodes in order into a new builder. For each node `replace` may emit something else: it gets the builder and
// the node with its inputs already mapped, fills the new outputs, and returns true; false copies the node unchanged.
// Scopes, losses, metrics and outputs are copied. If `prune` is set, nodes that no output, loss or metric needs are
// dropped.
using Replace = std::function<bool(Builder& builder, const Node& node, NodeId id, std::vector<ValueId>& outputs)>;
Result<Graph> rewrite(const Graph& graph, const Replace& replace, bool prune);

// Copies a node whose inputs are already the builder's; rewrite() does this for nodes that are not replaced.
void copy_node(Builder& builder, const Node& node, std::vector<ValueId>& outputs);

// Copies the nodes that a value depends on, except those whose values are known, and returns its new id. known(value):
// the new id, or kNone; must find what was added to `made`, the new ids by old value. Iterative, because a chain can be
// long.
ValueId copy_ancestors(Builder& builder, const Graph& graph, ValueId wanted,
                       const std::function<ValueId(ValueId)>& known, std::vector<ValueId>& made);

// Removes nodes that no output, loss or metric needs, including parameters. Names of the weights to load and save come
// from the graph before pruning.
Result<Graph> prune(const Graph& graph);

} // namespace hekla::graph
