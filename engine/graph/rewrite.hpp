// Copying a graph with changes: the ground of every pass.
#pragma once

#include "graph/builder.hpp"

#include <functional>

namespace hekla::graph {

// Copies nodes in order into a new builder. For each node `replace` may emit something else: it gets the builder, the
// node with its inputs already mapped, and fills the new outputs, returning true; false copies the node as it is.
// Scopes, losses, metrics and outputs are carried over. Nodes that no output, loss or metric needs are dropped when
// `prune` is set.
using Replace = std::function<bool(Builder& builder, const Node& node, NodeId id, std::vector<ValueId>& outputs)>;
Result<Graph> rewrite(const Graph& graph, const Replace& replace, bool prune);

// A node, its inputs already the builder's, as it is; what rewrite() does where nothing replaces it.
void copy_node(Builder& builder, const Node& node, std::vector<ValueId>& outputs);

// Removes what nothing needs, parameters too: whoever loads and saves weights asks the graph as described for their
// names.
Result<Graph> prune(const Graph& graph);

} // namespace hekla::graph
