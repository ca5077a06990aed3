// Operations that become others when a builder adds them.
#include "graph/buffer_update.hpp"
#include "graph/convolution.hpp"

namespace hekla::graph {

bool is_expanded(Op op) {
    switch (op) {
    case Op::conv1d:
    case Op::conv2d:
    case Op::max_pool1d:
    case Op::avg_pool1d:
    case Op::buffer_update: return true;
    default: return false;
    }
}

std::vector<ValueId> expand(Builder& builder, const Node& node) {
    return node.op == Op::buffer_update ? expand_buffer_update(builder, node) : expand_convolution(builder, node);
}

} // namespace hekla::graph
