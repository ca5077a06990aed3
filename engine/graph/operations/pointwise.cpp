// The interpreter's pointwise operations and random numbers.
#include "base/philox.hpp"
#include "graph/truncated_normal.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace hekla::graph::reference {

namespace {

template<class F>
void unary(const Call& call, F f) {
    std::ranges::transform(call.in(0).data, call.out().data.begin(), f);
}

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

void where(const Call& call) {
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
}

int64_t whole(double x) { return static_cast<int64_t>(x); }

Status integer_divide(const Call& call) {
    bool by_zero = false;
    binary(call, [&](double a, double b) {
        by_zero = by_zero || b == 0;
        return b == 0 ? 0.0 : wrapped(whole(a) / whole(b));
    });
    if (by_zero) return invalid_argument("integer division by 0; keep the divisor from being 0 (maximum, where)");
    return {};
}

Status integer_arithmetic(const Call& call) {
    switch (call.node.op) {
    case Op::add: binary(call, [](double a, double b) { return wrapped(whole(a) + whole(b)); }); break;
    case Op::sub: binary(call, [](double a, double b) { return wrapped(whole(a) - whole(b)); }); break;
    case Op::mul: binary(call, [](double a, double b) { return wrapped(whole(a) * whole(b)); }); break;
    case Op::neg: unary(call, [](double x) { return wrapped(-whole(x)); }); break;
    case Op::abs: unary(call, [](double x) { return wrapped(std::abs(whole(x))); }); break;
    default: return integer_divide(call);
    }
    return {};
}

// NaN is propagated, as in PyTorch.
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

void compare(const Call& call) {
    switch (static_cast<Relation>(call.node.integer("relation"))) {
    case Relation::equal: binary(call, [](double a, double b) { return a == b ? 1.0 : 0.0; }); break;
    case Relation::not_equal: binary(call, [](double a, double b) { return a != b ? 1.0 : 0.0; }); break;
    case Relation::less: binary(call, [](double a, double b) { return a < b ? 1.0 : 0.0; }); break;
    case Relation::less_equal: binary(call, [](double a, double b) { return a <= b ? 1.0 : 0.0; }); break;
    case Relation::greater: binary(call, [](double a, double b) { return a > b ? 1.0 : 0.0; }); break;
    case Relation::greater_equal: binary(call, [](double a, double b) { return a >= b ? 1.0 : 0.0; }); break;
    }
}

double softplus(double x) { return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double gelu(double x) { return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2); } // erfc keeps the left tail exact
double gelu_gradient(double dy, double x) {
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return dy * (0.5 * std::erfc(-x * std::numbers::sqrt2 / 2) + x * density);
}
double gelu_tanh(double x) {
    const double inner = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
}
double gelu_tanh_gradient(double dy, double x) {
    const double c = std::sqrt(2 * std::numbers::inv_pi);
    const double t = std::tanh(c * (x + 0.044715 * x * x * x));
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x));
}

double to_int32(double x) {
    if (std::isnan(x)) return 0;
    return std::trunc(std::clamp(x, static_cast<double>(std::numeric_limits<int32_t>::min()),
                                 static_cast<double>(std::numeric_limits<int32_t>::max())));
}

void clamp(const Call& call) {
    double low = call.node.real("low");
    double high = call.node.real("high");
    if (call.out().kind == Kind::int32) { // the integers inside the bounds
        low = std::ceil(low);
        high = std::floor(high);
    }
    unary(call, [=](double x) { return std::isnan(x) ? x : std::min(std::max(x, low), high); });
}

// The first dimension is the example; a scalar is element 0 of example 0.
template<class F>
void for_each_element(const Shape& shape, F f) {
    const int64_t examples = shape.rank() == 0 ? 1 : shape[0];
    if (examples == 0) return;
    const int64_t size = shape.elements() / examples;
    for (int64_t b = 0; b < examples; ++b)
        for (int64_t e = 0; e < size; ++e) f(b * size + e, b, e);
}

void dropout(const Call& call) {
    const double probability = call.node.real("probability");
    const int64_t stream = call.node.integer("stream");
    const double* x = call.data(0);
    double* y = call.out().data.data();
    for_each_element(call.out().shape, [&](int64_t i, int64_t example, int64_t element) {
        const double factor = dropout_factor(call.feeds, stream, probability, example, element);
        y[i] = factor == 0 ? 0 : x[i] * factor; // dropped elements are 0 even where x is not finite
    });
}

std::array<uint32_t, 4> random_block(const Feeds& feeds, int64_t stream, int64_t example, int64_t block) {
    return philox({static_cast<uint32_t>(block),
                   static_cast<uint32_t>(feeds.first_example + static_cast<uint64_t>(example)),
                   static_cast<uint32_t>(feeds.step), static_cast<uint32_t>(stream)},
                  {static_cast<uint32_t>(feeds.seed), static_cast<uint32_t>(feeds.seed >> 32)});
}

double random_normal(const Feeds& feeds, int64_t stream, int64_t example, int64_t element) {
    const auto words = random_block(feeds, stream, example, element / 2);
    const std::size_t first = element % 2 == 0 ? 0 : 2;
    const double u = (words[first] + 1.0) * 0x1p-32; // (0, 1]: the logarithm stays finite
    const double v = words[first + 1] * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

} // namespace

uint32_t random_word(const Feeds& feeds, int64_t stream, int64_t example, int64_t element) {
    return random_block(feeds, stream, example, element / 4)[at(element % 4)];
}

double dropout_factor(const Feeds& feeds, int64_t stream, double probability, int64_t example, int64_t element) {
    if (probability <= 0) return 1;
    const bool kept = random_word(feeds, stream, example, element) >= probability * 0x1p32;
    return kept ? 1 / (1 - probability) : 0;
}

Status run_random(const Call& call) {
    const int64_t stream = call.node.integer("stream");
    double* y = call.out().data.data();
    const bool normal = call.node.op == Op::random_normal;
    if (call.node.op == Op::truncated_normal) {
        const TruncatedNormal distribution(call.node.real("low"), call.node.real("high"));
        for_each_element(call.out().shape, [&](int64_t i, int64_t example, int64_t element) {
            y[i] = distribution.number_of(random_word(call.feeds, stream, example, element));
        });
        return {};
    }
    for_each_element(call.out().shape, [&](int64_t i, int64_t example, int64_t element) {
        y[i] = normal ? random_normal(call.feeds, stream, example, element)
                      : random_word(call.feeds, stream, example, element) * 0x1p-32;
    });
    return {};
}

Status run_pointwise(const Call& call) {
    const bool integer = call.out().kind == Kind::int32;
    switch (call.node.op) {
    case Op::add:
        if (integer) return integer_arithmetic(call);
        binary(call, [](double a, double b) { return a + b; });
        break;
    case Op::sub:
        if (integer) return integer_arithmetic(call);
        binary(call, [](double a, double b) { return a - b; });
        break;
    case Op::mul:
        if (integer) return integer_arithmetic(call);
        binary(call, [](double a, double b) { return a * b; });
        break;
    case Op::div:
        if (integer) return integer_arithmetic(call);
        binary(call, [](double a, double b) { return a / b; });
        break;
    case Op::neg:
        if (integer) return integer_arithmetic(call);
        unary(call, [](double x) { return -x; });
        break;
    case Op::abs:
        if (integer) return integer_arithmetic(call);
        unary(call, [](double x) { return std::abs(x); });
        break;
    case Op::pow: binary(call, [](double a, double b) { return std::pow(a, b); }); break;
    case Op::minimum: binary(call, smaller); break;
    case Op::maximum: binary(call, larger); break;
    case Op::compare: compare(call); break;
    case Op::where: where(call); break;
    case Op::sign: unary(call, [](double x) { return (x > 0 ? 1.0 : 0.0) - (x < 0 ? 1.0 : 0.0); }); break;
    case Op::floor: unary(call, [](double x) { return std::floor(x); }); break;
    case Op::round: unary(call, [](double x) { return std::nearbyint(x); }); break; // the default mode: ties to even
    case Op::exp: unary(call, [](double x) { return std::exp(x); }); break;
    case Op::log: unary(call, [](double x) { return std::log(x); }); break;
    case Op::log1p: unary(call, [](double x) { return std::log1p(x); }); break;
    case Op::sqrt: unary(call, [](double x) { return std::sqrt(x); }); break;
    case Op::rsqrt: unary(call, [](double x) { return 1 / std::sqrt(x); }); break;
    case Op::sin: unary(call, [](double x) { return std::sin(x); }); break;
    case Op::cos: unary(call, [](double x) { return std::cos(x); }); break;
    case Op::erf: unary(call, [](double x) { return std::erf(x); }); break;
    case Op::tanh: unary(call, [](double x) { return std::tanh(x); }); break;
    case Op::sigmoid: unary(call, sigmoid); break;
    case Op::softplus: unary(call, softplus); break;
    case Op::log_sigmoid: unary(call, [](double x) { return -softplus(-x); }); break;
    case Op::relu: unary(call, [](double x) { return x > 0 || std::isnan(x) ? x : 0.0; }); break;
    case Op::gelu: call.node.integer("tanh_approximation") != 0 ? unary(call, gelu_tanh) : unary(call, gelu); break;
    case Op::gelu_gradient:
        call.node.integer("tanh_approximation") != 0 ? binary(call, gelu_tanh_gradient) : binary(call, gelu_gradient);
        break;
    case Op::silu: unary(call, [](double x) { return x * sigmoid(x); }); break;
    case Op::clamp: clamp(call); break;
    case Op::cast:
        if (!integer) return run_shape(call);
        unary(call, to_int32);
        break;
    case Op::dropout: dropout(call); break;
    default: return run_shape(call); // stop_gradient
    }
    return {};
}

} // namespace hekla::graph::reference
