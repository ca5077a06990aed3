// Gradients of the pointwise operations, composed of pointwise operations, since fusion turns each chain into one
// kernel. At ties and kinks they equal PyTorch's.
#include "graph/gradient/backward.hpp"

#include <cmath>
#include <numbers>

namespace hekla::graph {
namespace {

// Returns the number of a fill; nothing for other nodes.
std::optional<double> known_number(Backward& b, ValueId value) {
    const Node& node = b.builder().graph().producer(value);
    if (node.op != Op::fill) return std::nullopt;
    return node.real("value");
}

void pow_gradient(Backward& b, ValueId dy) {
    const ValueId x = b.x(0), exponent = b.x(1), y = b.y();
    Builder& build = b.builder();
    if (b.wants(0)) {
        const std::optional<double> known = known_number(b, exponent);
        if (known == 2.0) {
            b.give(0, b.mul(dy, b.scale(x, 2.0)));
        } else if (known) {
            const ValueId power = build(Op::pow, {x, b.number(exponent, *known - 1.0)});
            b.give(0, *known == 0.0 ? b.scale(dy, 0.0) : b.mul(dy, b.scale(power, *known)));
        } else {
            const ValueId slope = b.mul(exponent, build(Op::pow, {x, b.shift(exponent, -1.0)}));
            const ValueId flat = b.compare(exponent, Relation::equal, 0.0);
            b.give(0, b.where(flat, b.number(slope, 0.0), b.mul(dy, slope)));
        }
    }
    if (b.wants(1)) {
        // 0 to a power of 0 or more is constant; log would turn it into NaN.
        const ValueId at_zero = b.compare(x, Relation::equal, 0.0);
        const ValueId flat = b.mul(at_zero, b.compare(exponent, Relation::greater_equal, 0.0));
        const ValueId slope = b.mul(y, build(Op::log, {x}));
        b.give(1, b.mul(dy, b.where(flat, b.number(slope, 0.0), slope)));
    }
}

void minimum_maximum_gradient(Backward& b, ValueId dy, Relation loses) {
    const ValueId tie = b.compare(b.x(0), Relation::equal, b.x(1));
    const ValueId half = b.scale(dy, 0.5), zero = b.number(dy, 0.0);
    if (b.wants(0)) b.give(0, b.where(tie, half, b.where(b.compare(b.x(0), loses, b.x(1)), zero, dy)));
    if (b.wants(1)) b.give(1, b.where(tie, half, b.where(b.compare(b.x(1), loses, b.x(0)), zero, dy)));
}

// gelu is x f(x) with f the normal distribution's function, f'' = -x f', or with f = (1 + tanh u(x)) / 2.
void gelu_gradient_gradient(Backward& b, ValueId dy) {
    const ValueId before = b.x(0), x = b.x(1);
    const int64_t approximate = b.node().integer("tanh_approximation");
    Builder& build = b.builder();
    if (b.wants(0)) b.give(0, build(Op::gelu_gradient, {dy, x}, {{"tanh_approximation", approximate}}));
    if (!b.wants(1)) return;
    const ValueId square = b.mul(x, x);
    ValueId second;
    if (approximate == 0) {
        const ValueId density =
            b.scale(build(Op::exp, {b.scale(square, -0.5)}), 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
        second = b.mul(density, b.shift(b.neg(square), 2.0));
    } else {
        constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCubic = 0.044715;
        const ValueId t = build(Op::tanh, {b.mul(x, b.scale(b.shift(b.scale(square, kCubic), 1.0), kScale))});
        const ValueId slope_of_t = b.one_minus(b.mul(t, t));
        const ValueId du = b.scale(b.shift(b.scale(square, 3.0 * kCubic), 1.0), kScale);
        const ValueId ddu = b.scale(x, 6.0 * kCubic * kScale);
        const ValueId curve = b.sub(ddu, b.scale(b.mul(t, b.mul(du, du)), 2.0));
        second = b.mul(slope_of_t, b.add(du, b.scale(b.mul(x, curve), 0.5)));
    }
    b.give(1, b.mul(dy, b.mul(before, second)));
}

// Returns dy/dx of an operation of one input, to be multiplied with dy; nothing for other operations.
std::optional<ValueId> slope(Backward& b) {
    Builder& build = b.builder();
    const ValueId x = b.x(), y = b.y();
    switch (b.node().op) {
    case Op::abs: return build(Op::sign, {x});
    case Op::exp: return y;
    case Op::rsqrt: return b.scale(b.mul(y, b.mul(y, y)), -0.5);
    case Op::sin: return build(Op::cos, {x});
    case Op::cos: return b.neg(build(Op::sin, {x}));
    case Op::erf: return b.scale(build(Op::exp, {b.neg(b.mul(x, x))}), 2.0 * std::numbers::inv_sqrtpi);
    case Op::tanh: return b.one_minus(b.mul(y, y));
    case Op::sigmoid: return b.mul(b.one_minus(y), y);
    case Op::softplus: return build(Op::sigmoid, {x});
    case Op::log_sigmoid: return build(Op::sigmoid, {b.neg(x)});
    case Op::silu: {
        const ValueId s = build(Op::sigmoid, {x});
        return b.mul(s, b.shift(b.mul(x, b.one_minus(s)), 1.0));
    }
    default: return std::nullopt;
    }
}

} // namespace

bool pointwise_gradient(Backward& b) {
    const Op op = b.node().op;
    if (!is_pointwise(op)) return false;
    Builder& build = b.builder();
    const ValueId dy = b.dy();
    if (const std::optional<ValueId> factor = b.node().inputs.size() == 1 ? slope(b) : std::nullopt) {
        b.give(0, b.mul(dy, *factor));
        return true;
    }
    const ValueId x0 = b.x(0), x1 = b.x(1), y = b.y();
    switch (op) {
    case Op::add:
        b.give(0, dy);
        b.give(1, dy);
        return true;
    case Op::sub:
        b.give(0, dy);
        if (b.wants(1)) b.give(1, b.neg(dy));
        return true;
    case Op::mul:
        if (b.wants(0)) b.give(0, b.mul(dy, x1));
        if (b.wants(1)) b.give(1, b.mul(dy, x0));
        return true;
    case Op::div:
        if (b.wants(0)) b.give(0, b.div(dy, x1));
        if (b.wants(1)) b.give(1, b.neg(b.mul(dy, b.div(y, x1))));
        return true;
    case Op::pow: pow_gradient(b, dy); return true;
    case Op::minimum: minimum_maximum_gradient(b, dy, Relation::greater); return true;
    case Op::maximum: minimum_maximum_gradient(b, dy, Relation::less); return true;
    case Op::where: {
        const ValueId zero = b.number(dy, 0.0);
        if (b.wants(1)) b.give(1, b.where(x0, dy, zero));
        if (b.wants(2)) b.give(2, b.where(x0, zero, dy));
        return true;
    }
    case Op::neg: b.give(0, b.neg(dy)); return true;
    case Op::gelu:
        b.give(0, build(Op::gelu_gradient, {dy, x0}, {{"tanh_approximation", b.node().integer("tanh_approximation")}}));
        return true;
    case Op::gelu_gradient: gelu_gradient_gradient(b, dy); return true;
    case Op::log: b.give(0, b.div(dy, x0)); return true;
    case Op::log1p: b.give(0, b.div(dy, b.shift(x0, 1.0))); return true;
    case Op::sqrt: b.give(0, b.div(dy, b.scale(y, 2.0))); return true;
    case Op::relu: b.give(0, b.where(b.compare(y, Relation::less_equal, 0.0), b.number(dy, 0.0), dy)); return true;
    case Op::clamp: {
        const ValueId above = b.compare(x0, Relation::greater, b.node().real("low"));
        const ValueId below = b.compare(x0, Relation::less, b.node().real("high"));
        b.give(0, b.where(b.mul(above, below), dy, b.number(dy, 0.0)));
        return true;
    }
    case Op::cast: b.give(0, dy); return true; // give() converts it to x's kind
    case Op::dropout:
        b.give(0, build(Op::dropout, {dy},
                        {{"probability", b.node().real("probability")}, {"stream", b.node().integer("stream")}}));
        return true;
    default: return false;
    }
}

} // namespace hekla::graph
