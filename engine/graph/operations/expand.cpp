// Operations that become others when a builder adds them.
#include "graph/operations/buffer_update.hpp"
#include "graph/operations/convolution.hpp"
#include "graph/operations/gradient_of.hpp"

namespace hekla::graph {

bool is_expanded(Op op) {
    switch (op) {
    case Op::conv1d:
    case Op::conv2d:
    case Op::max_pool1d:
    case Op::avg_pool1d:
    case Op::buffer_update:
    case Op::gradient_of: return true;
    default: return false;
    }
}

bool expands_now(const Builder& builder, const Node& node) {
    return is_expanded(node.op) && !waits_for_loops(builder, node);
}

std::vector<ValueId> expand(Builder& builder, const Node& node) {
    switch (node.op) {
    case Op::buffer_update: return expand_buffer_update(builder, node);
    case Op::gradient_of: return expand_gradient_of(builder, node);
    default: return expand_convolution(builder, node);
    }
}

} // namespace hekla::graph
