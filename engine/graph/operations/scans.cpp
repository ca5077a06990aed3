// Gradients of reductions and of operations along an axis.
#include "graph/gradient/backward.hpp"

namespace hekla::graph {
namespace {

// Returns the shape of x with the reduced axes as 1.
Shape kept(Backward& b) {
    Shape shape = b.shape(b.x());
    for (const int64_t axis : b.node().ints("axes")) shape[static_cast<int>(axis)] = 1;
    return shape;
}

// Returns x moved by one place along the axis of the node, which is a scan: place i has the element of the place that
// the scan visits after it, or before it, and the last or first place has `end`.
ValueId neighbor(Backward& b, ValueId x, bool after, double end) {
    const int64_t axis = from_start(b.node().integer("axis"), b.shape(x).rank());
    const int64_t length = b.shape(x)[static_cast<int>(axis)];
    if (length == 0) return x;
    const bool from_above = after == (b.node().integer("reverse") == 0);
    const ValueId moved = b.slice(x, axis, from_above ? 1 : 0, length - 1);
    return b.builder()(
        Op::pad, {moved},
        {{"axis", axis}, {"before", int64_t{!from_above}}, {"after", int64_t{from_above}}, {"value", end}});
}

// Returns s with s[i] = dy[i] + a[i + 1] s[i + 1], where i + 1 is the place that the scan visits after i.
ValueId scanned_back(Backward& b, ValueId dy, ValueId a) {
    return b.builder()(Op::scan_linear, {dy, neighbor(b, a, true, 0.0)},
                       {{"axis", b.node().integer("axis")}, {"reverse", int64_t{b.node().integer("reverse") == 0}}});
}

// y[i] depends on x[j] by the product of the others up to i, so the gradient needs no division.
void cumprod_gradient(Backward& b) { b.give(0, b.mul(scanned_back(b, b.dy(), b.x()), neighbor(b, b.y(), false, 1.0))); }

// A place that holds a maximum gets the gradients up to the next such place.
void cummax_gradient(Backward& b) {
    const ValueId dy = b.dy();
    if (dy == kNone) return;
    const Shape shape = b.shape(dy);
    const int axis = static_cast<int>(from_start(b.node().integer("axis"), shape.rank()));
    Shape places;
    for (int i = 0; i < shape.rank(); ++i) places.push_back(i == axis ? shape[i] : 1);
    const ValueId older = b.compare(b.y(1), Relation::not_equal, b.reshape(b.builder().iota(shape[axis]), places));
    b.give(0, b.where(older, b.number(dy, 0.0), scanned_back(b, dy, b.cast(older, b.kind(dy)))));
}

// The sum over i >= j of dy[i] exp(x[j] - y[i]), by factors exp(y[i - 1] - y[i]), which are at most 1.
void logcumsumexp_gradient(Backward& b) {
    const ValueId dy = b.dy();
    // Where y is -infinity, differences are 0 in place of NaN.
    const ValueId y = b.builder()(Op::maximum, {b.y(), b.number(b.y(), -1e38)});
    const ValueId factor = b.builder()(Op::exp, {b.sub(neighbor(b, y, false, -1e38), y)});
    b.give(0, b.mul(scanned_back(b, dy, factor), b.builder()(Op::exp, {b.sub(b.x(), y)})));
}

void scan_linear_gradient(Backward& b) {
    const Shape shape = b.shape(b.dy());
    const int64_t axis = from_start(b.node().integer("axis"), shape.rank());
    const int64_t length = shape[static_cast<int>(axis)];
    const ValueId s = scanned_back(b, b.dy(), b.x(1));
    b.give(0, s);
    const bool initial = b.node().inputs.size() > 2 && b.x(2) != kNone, reverse = b.node().integer("reverse") != 0;
    if (length == 0) return; // nothing depends on a and the initial value
    Shape place = shape;     // of one element of the axis
    place[static_cast<int>(axis)] = 1;
    if (b.wants(1)) {
        ValueId earlier = neighbor(b, b.y(), false, 0.0);
        if (initial) {
            const ValueId first = b.reshape(b.x(2), place), others = b.slice(b.y(), axis, reverse ? 1 : 0, length - 1);
            earlier = reverse ? b.builder()(Op::concat, {others, first}, {{"axis", axis}})
                              : b.builder()(Op::concat, {first, others}, {{"axis", axis}});
        }
        b.give(1, b.mul(s, earlier));
    }
    if (initial && b.wants(2)) {
        const int64_t first = reverse ? length - 1 : 0;
        b.give(2, b.reshape(b.mul(b.slice(s, axis, first, 1), b.slice(b.x(1), axis, first, 1)), b.shape(b.x(2))));
    }
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
    case Op::cumprod: cumprod_gradient(b); return true;
    case Op::cummax: cummax_gradient(b); return true;
    case Op::logcumsumexp: logcumsumexp_gradient(b); return true;
    case Op::scan_linear: scan_linear_gradient(b); return true;
    case Op::top_k:
        if (dy != kNone)
            b.give(0, build(Op::scatter_add, {build.fill(b.kind(dy), in, 0.0), b.y(1), dy},
                            {{"batch_dimensions", int64_t{in.rank() - 1}}}));
        return true;
    case Op::softmax: b.give(0, build(Op::softmax_gradient, {dy, y}, {{"axis", node.integer("axis")}})); return true;
    case Op::softmax_gradient: {
        const int64_t axis = from_start(node.integer("axis"), in.rank());
        const ValueId of = b.x(1), before = b.x(0); // y, and the gradient of the result
        if (b.wants(0)) b.give(0, build(Op::softmax_gradient, {dy, of}, {{"axis", axis}}));
        const auto mean = [&](ValueId value) { return b.sum(b.mul(value, of), {axis}, true); };
        if (b.wants(1)) b.give(1, b.sub(b.mul(dy, before), b.add(b.mul(dy, mean(before)), b.mul(before, mean(dy)))));
        return true;
    }
    case Op::log_softmax: {
        const ValueId total = b.sum(dy, {from_start(node.integer("axis"), in.rank())}, true);
        b.give(0, b.sub(dy, b.mul(build(Op::exp, {y}), total)));
        return true;
    }
    default: return false;
    }
}

} // namespace hekla::graph
