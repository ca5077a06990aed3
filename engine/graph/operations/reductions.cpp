// Reductions. NaN is larger than every number, as in PyTorch.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hekla::graph {
namespace {

// Returns the shape of x with the reduced axes as 1.
Shape with_axes_of_one(Shape x, const Node& node) {
    for (const int64_t axis : node.ints("axes")) x[static_cast<int>(axis)] = 1;
    return x;
}

// Returns the strides of the reduced tensor for a walk along x: the reduced axes have stride 0.
Strides reduced_strides(const Call& call) {
    const Shape& x = call.in(0).shape;
    return broadcast_strides(with_axes_of_one(x, call.node), x);
}

// Computes to[index of x[i]] = f(to[...], x[i]) in row-major order of x.
template<class F>
void fold(const Call& call, std::vector<double>& to, F f) {
    const Tensor& x = call.in(0);
    for_each_row<2>(x.shape, {x.shape.strides(), reduced_strides(call)}, {},
                    [&](const auto& offset, int64_t length, const auto& step) {
                        const double* from = x.data.data() + offset[0];
                        double* place = to.data() + offset[1];
                        if (step[1] == 0) {
                            double value = *place;
                            for (int64_t i = 0; i < length; ++i) value = f(value, from[i * step[0]], offset[1]);
                            *place = value;
                        } else {
                            for (int64_t i = 0; i < length; ++i)
                                place[i * step[1]] = f(place[i * step[1]], from[i * step[0]], offset[1] + i * step[1]);
                        }
                    });
}

Result<Outputs> reduce_outputs(const Rule& r) {
    const Shape& x = r.shape(0);
    std::array<bool, kMaxRank> gone{};
    for (const int64_t a : r.node.ints("axes")) {
        HK_ASSIGN(const int axis, r.axis(a, x));
        if (gone[static_cast<std::size_t>(axis)]) return r.error("axis {} is named twice", a);
        gone[static_cast<std::size_t>(axis)] = true;
    }
    Shape y;
    const bool keep = r.node.integer("keep") != 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
        if (!gone[static_cast<std::size_t>(axis)])
            y.push_back(x[axis]);
        else if (keep)
            y.push_back(1);
    }
    const bool needs_elements = r.node.op != Op::sum;
    if (needs_elements && x.elements() == 0) return r.error("{} has no elements", x.text());
    return one(r.kind(0), y);
}

void sum_gradient(Backward& b) {
    b.give(0, b.broadcast(b.reshape(b.dy(), with_axes_of_one(b.shape(b.x()), b.node())), b.shape(b.x())));
}

Status run_sum(const Call& call) {
    std::vector<double>& y = call.out().data;
    fold(call, y, [](double total, double x, int64_t) { return total + x; });
    if (call.out().kind == Kind::int32) // the sum itself is exact: 2^22 elements fit in 53 bits
        for (double& value : y) value = wrapped(static_cast<int64_t>(value));
    return {};
}

void mean_gradient(Backward& b) {
    const Shape shape = with_axes_of_one(b.shape(b.x()), b.node()), in = b.shape(b.x());
    const double count = static_cast<double>(in.elements()) / static_cast<double>(shape.elements());
    b.give(0, b.broadcast(b.scale(b.reshape(b.dy(), shape), 1.0 / count), in));
}

Status run_mean(const Call& call) {
    HK_TRY(run_sum(call));
    const double count = static_cast<double>(call.in(0).data.size()) / static_cast<double>(call.out().data.size());
    for (double& value : call.out().data) value /= count;
    return {};
}

void max_gradient(Backward& b) {
    const ValueId dy = b.dy(), x = b.x();
    const Shape shape = with_axes_of_one(b.shape(b.x()), b.node());
    const ValueId at = b.compare(x, Relation::equal, b.reshape(b.y(), shape));
    const ValueId count = b.sum(b.cast(at, b.kind(x)), b.node().ints("axes"), true);
    b.give(0, b.where(at, b.div(b.reshape(dy, shape), count), b.number(dy, 0.0)));
}

Status run_max(const Call& call) {
    std::vector<double>& y = call.out().data;
    std::ranges::fill(y, -kInfinity);
    fold(call, y, [](double best, double x, int64_t) { return above(x, best) ? x : best; });
    return {};
}

void logsumexp_gradient(Backward& b) {
    const Shape shape = with_axes_of_one(b.shape(b.x()), b.node());
    const ValueId probability = b.builder()(Op::exp, {b.sub(b.x(), b.reshape(b.y(), shape))});
    b.give(0, b.mul(b.reshape(b.dy(), shape), probability));
}

Status run_logsumexp(const Call& call) {
    std::vector<double>& y = call.out().data;
    HK_TRY(run_max(call));
    std::vector<double> total(y.size());
    fold(call, total, [&](double t, double x, int64_t place) {
        const double top = y[at(place)];
        return t + (std::isinf(top) ? (x == top ? 1.0 : 0.0) : std::exp(x - top)); // inf - inf is not a number
    });
    for (std::size_t i = 0; i < y.size(); ++i)
        if (!std::isinf(y[i])) y[i] += std::log(total[i]);
    return {};
}

Result<Outputs> argmax_outputs(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    if (r.shape(0)[axis] == 0) return r.error("axis {} of {} is empty", axis, r.text(0));
    Shape y = r.shape(0);
    y.erase(axis);
    return one(Kind::int32, y);
}

Status run_argmax(const Call& call) {
    const auto [outer, length, inner] = around_axis(call.in(0).shape, call.node.integer("axis"));
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i) {
            const double* x = call.data(0) + o * length * inner + i;
            int64_t best = 0;
            for (int64_t j = 1; j < length; ++j)
                if (above(x[j * inner], x[best * inner])) best = j;
            call.out().data[at(o * inner + i)] = static_cast<double>(best);
        }
    return {};
}

Result<Outputs> top_k_outputs(const Rule& r) {
    if (r.shape(0).rank() == 0) return r.error("a scalar has no axis");
    Shape y = r.shape(0);
    const int64_t k = r.node.integer("k");
    if (k < 1 || k > y[-1]) return r.error("k = {} is outside 1 to {} of {}", k, y[-1], y.text());
    y[-1] = k;
    return Outputs{{r.kind(0), y}, {Kind::int32, y}};
}

void top_k_gradient(Backward& b) {
    const ValueId dy = b.dy();
    const Shape in = b.shape(b.x());
    if (dy != kNone)
        b.give(0, b.builder()(Op::scatter_add, {b.builder().fill(b.kind(dy), in, 0.0), b.y(1), dy},
                              {{"batch_dimensions", int64_t{in.rank() - 1}}}));
}

Status run_top_k(const Call& call) {
    const int64_t length = call.in(0).shape[-1];
    const int64_t k = call.node.integer("k");
    const int64_t rows = call.in(0).shape.elements() / length;
    std::vector<int64_t> order(at(length));
    for (int64_t row = 0; row < rows; ++row) {
        const double* x = call.data(0) + row * length;
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + k, order.end(),
                          [&](int64_t a, int64_t b) { return above(x[a], x[b]) || (!above(x[b], x[a]) && a < b); });
        for (int64_t j = 0; j < k; ++j) {
            call.out(0).data[at(row * k + j)] = x[order[at(j)]];
            call.out(1).data[at(row * k + j)] = static_cast<double>(order[at(j)]);
        }
    }
    return {};
}

} // namespace

const OperationRules sum_rules{reduce_outputs, sum_gradient, run_sum};
const OperationRules mean_rules{reduce_outputs, mean_gradient, run_mean};
const OperationRules max_rules{reduce_outputs, max_gradient, run_max};
const OperationRules logsumexp_rules{reduce_outputs, logsumexp_gradient, run_logsumexp};
const OperationRules argmax_rules{argmax_outputs, no_gradient, run_argmax};
const OperationRules top_k_rules{top_k_outputs, top_k_gradient, run_top_k};

} // namespace hekla::graph
