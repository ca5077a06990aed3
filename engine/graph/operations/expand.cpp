// Operations that become others when a builder adds them.
#include "graph/builder.hpp"
#include "graph/operations/gradient_of.hpp"
#include "graph/operations/rules.hpp"

namespace hekla::graph {

bool is_expanded(Op op) { return rules_of(op).expand != nullptr; }

bool expands_now(const Builder& builder, const Node& node) {
    return is_expanded(node.op) && !waits_for_loops(builder, node);
}

std::vector<ValueId> expand(Builder& builder, const Node& node) { return rules_of(node.op).expand(builder, node); }

} // namespace hekla::graph
