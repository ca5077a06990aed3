// Pointwise operations. Gradients are composed of pointwise operations, since fusion turns each chain into one kernel;
// at ties and kinks they equal PyTorch's.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace hekla::graph {
namespace {

Result<Outputs> pointwise_outputs(const Rule& r) {
    const std::size_t first = r.node.op == Op::where ? 1 : 0;
    Kind kind = r.kind(first);
    Shape shape = r.shape(0);
    for (std::size_t i = 1; i < r.node.inputs.size(); ++i) {
        const std::optional<Shape> both = broadcast_shapes(shape, r.shape(i));
        if (!both) return r.error("{} and {} do not broadcast to one shape", shape.text(), r.text(i));
        shape = *both;
        if (i > first) {
            if (is_float(kind) != is_float(r.kind(i)))
                return r.error("{} is {} and {} is {}: cast one of them", r.input_name(first), kind_name(kind),
                               r.input_name(i), kind_name(r.kind(i)));
            kind = joined(kind, r.kind(i));
        }
    }
    return one(kind, shape);
}

// Computes y = f(x).
template<class F>
void unary(const Call& call, F f) {
    std::ranges::transform(call.in(0).data, call.out().data.begin(), f);
}

// Computes y = f(a, b), with broadcasting.
template<class F>
void binary(const Call& call, F f) {
    Tensor& y = call.out();
    const double* a = call.data(0);
    const double* b = call.data(1);
    double* to = y.data.data();
    for_each_row<3>(
        y.shape,
        {y.shape.strides(), broadcast_strides(call.in(0).shape, y.shape), broadcast_strides(call.in(1).shape, y.shape)},
        {}, [&](const auto& offset, int64_t length, const auto& step) {
            const double* p = a + offset[1];
            const double* q = b + offset[2];
            double* r = to + offset[0];
            for (int64_t i = 0; i < length; ++i) r[i] = f(p[i * step[1]], q[i * step[2]]);
        });
}

template<double (*f)(double)>
Status run_unary(const Call& call) {
    unary(call, f);
    return {};
}

template<double (*f)(double, double)>
Status run_binary(const Call& call) {
    binary(call, f);
    return {};
}

int64_t whole(double x) { return static_cast<int64_t>(x); }

// The reference of operations of floats and of integers, which wrap.
template<auto f>
Status run_arithmetic(const Call& call) {
    if (call.out().kind == Kind::int32)
        binary(call, [](double a, double b) { return wrapped(f(whole(a), whole(b))); });
    else
        binary(call, [](double a, double b) { return f(a, b); });
    return {};
}

// Adds the gradient of an operation of one input whose derivative is `slope`.
template<ValueId (*slope)(Backward&)>
void by_slope(Backward& b) {
    const ValueId dy = b.dy();
    b.give(0, b.mul(dy, slope(b)));
}

// Arithmetic.

void add_gradient(Backward& b) {
    b.give(0, b.dy());
    b.give(1, b.dy());
}

void sub_gradient(Backward& b) {
    b.give(0, b.dy());
    if (b.wants(1)) b.give(1, b.neg(b.dy()));
}

void mul_gradient(Backward& b) {
    if (b.wants(0)) b.give(0, b.mul(b.dy(), b.x(1)));
    if (b.wants(1)) b.give(1, b.mul(b.dy(), b.x(0)));
}

void div_gradient(Backward& b) {
    const ValueId dy = b.dy(), divisor = b.x(1);
    if (b.wants(0)) b.give(0, b.div(dy, divisor));
    if (b.wants(1)) b.give(1, b.neg(b.mul(dy, b.div(b.y(), divisor))));
}

Status run_div(const Call& call) {
    bool by_zero = false;
    if (call.out().kind == Kind::int32)
        binary(call, [&](double a, double b) {
            by_zero = by_zero || b == 0;
            return b == 0 ? 0.0 : wrapped(whole(a) / whole(b));
        });
    else
        binary(call, [](double a, double b) { return a / b; });
    if (by_zero) return invalid_argument("integer division by 0; keep the divisor from being 0 (maximum, where)");
    return {};
}

void neg_gradient(Backward& b) { b.give(0, b.neg(b.dy())); }

Status run_neg(const Call& call) {
    const bool integer = call.out().kind == Kind::int32;
    unary(call, [=](double x) { return integer ? wrapped(-whole(x)) : -x; });
    return {};
}

ValueId abs_slope(Backward& b) { return b.builder()(Op::sign, {b.x()}); }

Status run_abs(const Call& call) {
    const bool integer = call.out().kind == Kind::int32;
    unary(call, [=](double x) { return integer ? wrapped(std::abs(whole(x))) : std::abs(x); });
    return {};
}

// Returns the number of a fill; nothing for other nodes.
std::optional<double> known_number(Backward& b, ValueId value) {
    const Node& node = b.builder().graph().producer(value);
    return node.op == Op::fill ? std::optional(node.real("value")) : std::nullopt;
}

void pow_gradient(Backward& b) {
    const ValueId dy = b.dy(), x = b.x(0), exponent = b.x(1), y = b.y();
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

// Choices.

// Both get half the gradient at a tie; otherwise the one that `loses` gets none.
template<Relation loses>
void extremum_gradient(Backward& b) {
    const ValueId dy = b.dy();
    const ValueId tie = b.compare(b.x(0), Relation::equal, b.x(1));
    const ValueId half = b.scale(dy, 0.5), zero = b.number(dy, 0.0);
    if (b.wants(0)) b.give(0, b.where(tie, half, b.where(b.compare(b.x(0), loses, b.x(1)), zero, dy)));
    if (b.wants(1)) b.give(1, b.where(tie, half, b.where(b.compare(b.x(1), loses, b.x(0)), zero, dy)));
}

// NaN is propagated, as in PyTorch.
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

Result<Outputs> compare_outputs(const Rule& r) {
    HK_ASSIGN(const Outputs operands, pointwise_outputs(r));
    const int64_t relation = r.node.integer("relation");
    if (relation < 0 || relation > 5) return r.error("relation {} is not 0 to 5", relation);
    return one(Kind::int32, operands[0].second);
}

Status run_compare(const Call& call) {
    switch (static_cast<Relation>(call.node.integer("relation"))) {
    case Relation::equal: binary(call, [](double a, double b) { return a == b ? 1.0 : 0.0; }); break;
    case Relation::not_equal: binary(call, [](double a, double b) { return a != b ? 1.0 : 0.0; }); break;
    case Relation::less: binary(call, [](double a, double b) { return a < b ? 1.0 : 0.0; }); break;
    case Relation::less_equal: binary(call, [](double a, double b) { return a <= b ? 1.0 : 0.0; }); break;
    case Relation::greater: binary(call, [](double a, double b) { return a > b ? 1.0 : 0.0; }); break;
    case Relation::greater_equal: binary(call, [](double a, double b) { return a >= b ? 1.0 : 0.0; }); break;
    }
    return {};
}

void where_gradient(Backward& b) {
    const ValueId dy = b.dy(), condition = b.x(0);
    const ValueId zero = b.number(dy, 0.0);
    if (b.wants(1)) b.give(1, b.where(condition, dy, zero));
    if (b.wants(2)) b.give(2, b.where(condition, zero, dy));
}

Status run_where(const Call& call) {
    Tensor& y = call.out();
    for_each_row<4>(y.shape,
                    {y.shape.strides(), broadcast_strides(call.in(0).shape, y.shape),
                     broadcast_strides(call.in(1).shape, y.shape), broadcast_strides(call.in(2).shape, y.shape)},
                    {}, [&](const auto& offset, int64_t length, const auto& step) {
                        for (int64_t i = 0; i < length; ++i) {
                            const bool first = call.data(0)[offset[1] + i * step[1]] != 0;
                            y.data[at(offset[0] + i)] =
                                first ? call.data(1)[offset[2] + i * step[2]] : call.data(2)[offset[3] + i * step[3]];
                        }
                    });
    return {};
}

void clamp_gradient(Backward& b) {
    const ValueId dy = b.dy();
    const ValueId above = b.compare(b.x(0), Relation::greater, b.node().real("low"));
    const ValueId below = b.compare(b.x(0), Relation::less, b.node().real("high"));
    b.give(0, b.where(b.mul(above, below), dy, b.number(dy, 0.0)));
}

Status run_clamp(const Call& call) {
    double low = call.node.real("low");
    double high = call.node.real("high");
    if (call.out().kind == Kind::int32) { // the integers inside the bounds
        low = std::ceil(low);
        high = std::floor(high);
    }
    unary(call, [=](double x) { return std::isnan(x) ? x : std::min(std::max(x, low), high); });
    return {};
}

// Functions of one number. Derivatives are in terms of x or y, whichever needs less.

ValueId exp_slope(Backward& b) { return b.y(); }
ValueId rsqrt_slope(Backward& b) { return b.scale(b.mul(b.y(), b.mul(b.y(), b.y())), -0.5); }
ValueId sin_slope(Backward& b) { return b.builder()(Op::cos, {b.x()}); }
ValueId cos_slope(Backward& b) { return b.neg(b.builder()(Op::sin, {b.x()})); }
ValueId erf_slope(Backward& b) {
    return b.scale(b.builder()(Op::exp, {b.neg(b.mul(b.x(), b.x()))}), 2.0 * std::numbers::inv_sqrtpi);
}
ValueId tanh_slope(Backward& b) { return b.one_minus(b.mul(b.y(), b.y())); }
ValueId sigmoid_slope(Backward& b) { return b.mul(b.one_minus(b.y()), b.y()); }
ValueId softplus_slope(Backward& b) { return b.builder()(Op::sigmoid, {b.x()}); }
ValueId log_sigmoid_slope(Backward& b) { return b.builder()(Op::sigmoid, {b.neg(b.x())}); }
ValueId silu_slope(Backward& b) {
    const ValueId s = b.builder()(Op::sigmoid, {b.x()});
    return b.mul(s, b.shift(b.mul(b.x(), b.one_minus(s)), 1.0));
}

void log_gradient(Backward& b) { b.give(0, b.div(b.dy(), b.x())); }
void log1p_gradient(Backward& b) { b.give(0, b.div(b.dy(), b.shift(b.x(), 1.0))); }
void sqrt_gradient(Backward& b) { b.give(0, b.div(b.dy(), b.scale(b.y(), 2.0))); }
void relu_gradient(Backward& b) {
    const ValueId dy = b.dy();
    b.give(0, b.where(b.compare(b.y(), Relation::less_equal, 0.0), b.number(dy, 0.0), dy));
}

double sign(double x) { return (x > 0 ? 1.0 : 0.0) - (x < 0 ? 1.0 : 0.0); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double softplus(double x) { return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double log_sigmoid(double x) { return -softplus(-x); }
double relu(double x) { return x > 0 || std::isnan(x) ? x : 0.0; }
double silu(double x) { return x * sigmoid(x); }

// gelu.

double gelu(double x) { return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2); } // erfc keeps the left tail exact
double gelu_slope(double dy, double x) {
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return dy * (0.5 * std::erfc(-x * std::numbers::sqrt2 / 2) + x * density);
}
double gelu_tanh(double x) {
    const double inner = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
}
double gelu_tanh_slope(double dy, double x) {
    const double c = std::sqrt(2 * std::numbers::inv_pi);
    const double t = std::tanh(c * (x + 0.044715 * x * x * x));
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x));
}

void gelu_gradient(Backward& b) {
    b.give(0, b.builder()(Op::gelu_gradient, {b.dy(), b.x(0)},
                          {{"tanh_approximation", b.node().integer("tanh_approximation")}}));
}

// gelu is x f(x) with f the normal distribution's function, f'' = -x f', or with f = (1 + tanh u(x)) / 2.
void gelu_gradient_gradient(Backward& b) {
    const ValueId dy = b.dy(), before = b.x(0), x = b.x(1);
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

Status run_gelu(const Call& call) {
    return call.node.integer("tanh_approximation") != 0 ? run_unary<gelu_tanh>(call) : run_unary<gelu>(call);
}

Status run_gelu_gradient(const Call& call) {
    return call.node.integer("tanh_approximation") != 0 ? run_binary<gelu_tanh_slope>(call)
                                                        : run_binary<gelu_slope>(call);
}

// Kinds.

Result<Outputs> cast_outputs(const Rule& r) {
    const int64_t to = r.node.integer("kind");
    if (to < 0 || to > 2) return r.error("kind {} is not 0 (float), 1 (float32) or 2 (int32)", to);
    return one(static_cast<Kind>(to), r.shape(0));
}

void cast_gradient(Backward& b) { b.give(0, b.dy()); } // give() converts it to x's kind

double to_int32(double x) {
    if (std::isnan(x)) return 0;
    return std::trunc(std::clamp(x, static_cast<double>(std::numeric_limits<int32_t>::min()),
                                 static_cast<double>(std::numeric_limits<int32_t>::max())));
}

Status run_cast(const Call& call) {
    return call.out().kind == Kind::int32 ? run_unary<to_int32>(call) : run_same(call);
}

} // namespace

const OperationRules add_rules{pointwise_outputs, add_gradient, run_arithmetic<[](auto a, auto b) { return a + b; }>};
const OperationRules sub_rules{pointwise_outputs, sub_gradient, run_arithmetic<[](auto a, auto b) { return a - b; }>};
const OperationRules mul_rules{pointwise_outputs, mul_gradient, run_arithmetic<[](auto a, auto b) { return a * b; }>};
const OperationRules div_rules{pointwise_outputs, div_gradient, run_div};
const OperationRules neg_rules{pointwise_outputs, neg_gradient, run_neg};
const OperationRules abs_rules{pointwise_outputs, by_slope<abs_slope>, run_abs};
const OperationRules pow_rules{pointwise_outputs, pow_gradient, run_binary<std::pow>};
const OperationRules minimum_rules{pointwise_outputs, extremum_gradient<Relation::greater>, run_binary<smaller>};
const OperationRules maximum_rules{pointwise_outputs, extremum_gradient<Relation::less>, run_binary<larger>};
const OperationRules compare_rules{compare_outputs, no_gradient, run_compare};
const OperationRules where_rules{pointwise_outputs, where_gradient, run_where};
const OperationRules clamp_rules{pointwise_outputs, clamp_gradient, run_clamp};
const OperationRules sign_rules{pointwise_outputs, no_gradient, run_unary<sign>};
const OperationRules floor_rules{pointwise_outputs, no_gradient, run_unary<std::floor>};
const OperationRules round_rules{pointwise_outputs, no_gradient,
                                 run_unary<std::nearbyint>}; // the default mode: ties to even
const OperationRules exp_rules{pointwise_outputs, by_slope<exp_slope>, run_unary<std::exp>};
const OperationRules log_rules{pointwise_outputs, log_gradient, run_unary<std::log>};
const OperationRules log1p_rules{pointwise_outputs, log1p_gradient, run_unary<std::log1p>};
const OperationRules sqrt_rules{pointwise_outputs, sqrt_gradient, run_unary<std::sqrt>};
const OperationRules rsqrt_rules{pointwise_outputs, by_slope<rsqrt_slope>, run_unary<rsqrt>};
const OperationRules sin_rules{pointwise_outputs, by_slope<sin_slope>, run_unary<std::sin>};
const OperationRules cos_rules{pointwise_outputs, by_slope<cos_slope>, run_unary<std::cos>};
const OperationRules erf_rules{pointwise_outputs, by_slope<erf_slope>, run_unary<std::erf>};
const OperationRules tanh_rules{pointwise_outputs, by_slope<tanh_slope>, run_unary<std::tanh>};
const OperationRules sigmoid_rules{pointwise_outputs, by_slope<sigmoid_slope>, run_unary<sigmoid>};
const OperationRules softplus_rules{pointwise_outputs, by_slope<softplus_slope>, run_unary<softplus>};
const OperationRules log_sigmoid_rules{pointwise_outputs, by_slope<log_sigmoid_slope>, run_unary<log_sigmoid>};
const OperationRules relu_rules{pointwise_outputs, relu_gradient, run_unary<relu>};
const OperationRules silu_rules{pointwise_outputs, by_slope<silu_slope>, run_unary<silu>};
const OperationRules gelu_rules{pointwise_outputs, gelu_gradient, run_gelu};
const OperationRules gelu_gradient_rules{pointwise_outputs, gelu_gradient_gradient, run_gelu_gradient};
const OperationRules cast_rules{cast_outputs, cast_gradient, run_cast};
const OperationRules stop_gradient_rules{pointwise_outputs, no_gradient, run_same};

} // namespace hekla::graph
