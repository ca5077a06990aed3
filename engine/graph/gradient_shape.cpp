// Gradients of the operations that move elements: shapes, lookups, modes.
#include "graph/gradient/backward.hpp"

namespace hekla::graph {
namespace {

void concat_gradient(Backward& b, ValueId dy) {
    const int64_t axis = b.node().integer("axis");
    int64_t start = 0;
    for (std::size_t i = 0; i < b.node().inputs.size(); ++i) {
        const int64_t length = b.shape(b.x(i))[static_cast<int>(axis)];
        if (b.wants(i)) b.give(i, b.slice(dy, axis, start, length));
        start += length;
    }
}

ValueId transposed_back(Backward& b, ValueId dy) {
    const std::vector<int64_t>& permutation = b.node().ints("permutation");
    std::vector<int64_t> inverse(permutation.size());
    for (std::size_t i = 0; i < permutation.size(); ++i)
        inverse[static_cast<std::size_t>(permutation[i])] = static_cast<int64_t>(i);
    return b.builder()(Op::transpose, {dy}, {{"permutation", std::move(inverse)}});
}

// The table's gradient is a sum of rows of x, without those of row no_gradient_id, which may lie outside of the table.
void embedding_gradient_gradient(Backward& b, ValueId dy) {
    const ValueId ids = b.x(1);
    const auto integer = [&](int64_t value) {
        return b.builder().fill(Kind::int32, Shape{}, static_cast<double>(value));
    };
    const ValueId excluded = b.compare(ids, Relation::equal, integer(b.node().integer("no_gradient_id")));
    const ValueId rows = b.builder()(Op::embedding, {dy, b.where(excluded, integer(0), ids)});
    Shape column = b.shape(ids);
    column.push_back(1);
    b.give(0, b.where(b.reshape(excluded, column), b.number(rows, 0.0), rows));
}

} // namespace

bool shape_gradient(Backward& b) {
    const Node& node = b.node();
    Builder& build = b.builder();
    const ValueId dy = b.dy();
    switch (node.op) {
    case Op::reshape: b.give(0, b.reshape(dy, b.shape(b.x()))); return true;
    case Op::transpose: b.give(0, transposed_back(b, dy)); return true;
    case Op::slice: {
        const int64_t axis = node.integer("axis");
        if (node.integer("stride") == 1) {
            b.give_slice(0, dy, from_start(axis, b.shape(b.x()).rank()), node.integer("start"));
            return true;
        }
        b.give(0, build(Op::unslice, {dy},
                        {{"axis", axis},
                         {"start", node.integer("start")},
                         {"stride", node.integer("stride")},
                         {"length", b.shape(b.x())[static_cast<int>(axis)]}}));
        return true;
    }
    case Op::unslice: {
        const int64_t axis = node.integer("axis");
        b.give(0, b.slice(dy, axis, node.integer("start"), b.shape(b.x())[static_cast<int>(axis)],
                          node.integer("stride")));
        return true;
    }
    case Op::concat: concat_gradient(b, dy); return true;
    case Op::pad: {
        const int64_t axis = node.integer("axis");
        b.give(0, b.slice(dy, axis, node.integer("before"), b.shape(b.x())[static_cast<int>(axis)]));
        return true;
    }
    case Op::broadcast: b.give(0, dy); return true; // summed to x's shape
    case Op::flip: b.give(0, build(Op::flip, {dy}, {{"axis", node.integer("axis")}})); return true;
    case Op::embedding:
        b.give(0, build(Op::embedding_gradient, {dy, b.x(1)},
                        {{"rows", b.shape(b.x(0))[0]}, {"no_gradient_id", node.integer("no_gradient_id")}}));
        return true;
    case Op::embedding_gradient: embedding_gradient_gradient(b, dy); return true;
    case Op::gather: {
        const int64_t batch = node.integer("batch_dimensions");
        const ValueId zeros = build.fill(b.kind(dy), b.shape(b.x(0)), 0.0);
        b.give(0, build(Op::scatter_add, {zeros, b.x(1), dy}, {{"batch_dimensions", batch}}));
        return true;
    }
    case Op::scatter_add:
    case Op::scatter: {
        const int64_t batch = node.integer("batch_dimensions");
        if (b.wants(2)) b.give(2, build(Op::gather, {dy, b.x(1)}, {{"batch_dimensions", batch}}));
        if (!b.wants(0)) return true;
        if (node.op == Op::scatter_add) {
            b.give(0, dy);
        } else {
            const ValueId zeros = build.fill(b.kind(dy), b.shape(b.x(2)), 0.0);
            b.give(0, build(Op::scatter, {dy, b.x(1), zeros}, {{"batch_dimensions", batch}}));
        }
        return true;
    }
    case Op::once:
    case Op::state_read:
    case Op::state_write:
    case Op::for_parameters:
    case Op::tap:
    case Op::site: b.give(0, dy); return true;
    default: return false;
    }
}

} // namespace hekla::graph
