// Gradients of reductions and of operations along an axis.
#include "graph/backward.hpp"

namespace hekla::graph {
namespace {

// Returns the shape of x with the reduced axes as 1.
Shape kept(Backward& b) {
    Shape shape = b.shape(b.x());
    for (const int64_t axis : b.node().ints("axes")) shape[static_cast<int>(axis)] = 1;
    return shape;
}

} // namespace

bool reduce_gradient(Backward& b) {
    const Node& node = b.node();
    Builder& build = b.builder();
    const ValueId dy = b.dy(), x = b.x(), y = b.y();
    const Shape& in = b.shape(x);
    switch (node.op) {
    case Op::sum: b.give(0, b.broadcast(b.reshape(dy, kept(b)), in)); return true;
    case Op::mean: {
        const Shape shape = kept(b);
        const double count = static_cast<double>(in.elements()) / static_cast<double>(shape.elements());
        b.give(0, b.broadcast(b.scale(b.reshape(dy, shape), 1.0 / count), in));
        return true;
    }
    case Op::max: {
        const Shape shape = kept(b);
        const ValueId at = b.compare(x, Relation::equal, b.reshape(y, shape));
        const ValueId count = b.sum(b.cast(at, b.kind(x)), node.ints("axes"), true);
        b.give(0, b.where(at, b.div(b.reshape(dy, shape), count), b.number(dy, 0.0)));
        return true;
    }
    case Op::logsumexp: {
        const Shape shape = kept(b);
        const ValueId probability = build(Op::exp, {b.sub(x, b.reshape(y, shape))});
        b.give(0, b.mul(b.reshape(dy, shape), probability));
        return true;
    }
    case Op::cumsum:
        b.give(0, build(Op::cumsum, {dy},
                        {{"axis", node.integer("axis")}, {"reverse", int64_t{node.integer("reverse") == 0}}}));
        return true;
    case Op::top_k: {
        const int rank = in.rank();
        if (dy != kNone)
            b.give(0, build(Op::gather_gradient, {dy, b.y(1)},
                            {{"batch_dimensions", int64_t{rank - 1}}, {"rows", in[-1]}}));
        return true;
    }
    case Op::softmax: b.give(0, build(Op::softmax_gradient, {dy, y}, {{"axis", node.integer("axis")}})); return true;
    case Op::log_softmax: {
        const ValueId total = b.sum(dy, {from_start(node.integer("axis"), in.rank())}, true);
        b.give(0, b.sub(dy, b.mul(build(Op::exp, {y}), total)));
        return true;
    }
    default: return false;
    }
}

} // namespace hekla::graph
