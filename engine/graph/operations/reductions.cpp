// The interpreter's reductions. NaN is larger than every number, as in PyTorch.
#include "graph/reference/call.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace hekla::graph::reference {

namespace {

bool above(double a, double b) { return (std::isnan(a) && !std::isnan(b)) || a > b; }

// Returns the strides of the reduced tensor for a walk along x: the reduced axes have stride 0.
Strides reduced_strides(const Call& call) {
    const Shape& x = call.in(0).shape;
    Shape kept = x;
    for (const int64_t axis : call.node.ints("axes")) kept[static_cast<int>(axis)] = 1;
    return broadcast_strides(kept, x);
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

void sum(const Call& call) {
    std::vector<double>& y = call.out().data;
    fold(call, y, [](double total, double x, int64_t) { return total + x; });
    if (call.out().kind == Kind::int32) // the sum itself is exact: 2^22 elements fit in 53 bits
        for (double& value : y) value = wrapped(static_cast<int64_t>(value));
}

void mean(const Call& call) {
    sum(call);
    const double count = static_cast<double>(call.in(0).data.size()) / static_cast<double>(call.out().data.size());
    for (double& value : call.out().data) value /= count;
}

void max(const Call& call) {
    std::vector<double>& y = call.out().data;
    std::ranges::fill(y, -kInfinity);
    fold(call, y, [](double best, double x, int64_t) { return above(x, best) ? x : best; });
}

void logsumexp(const Call& call) {
    std::vector<double>& y = call.out().data;
    max(call);
    std::vector<double> total(y.size());
    fold(call, total, [&](double t, double x, int64_t place) {
        const double top = y[at(place)];
        return t + (std::isinf(top) ? (x == top ? 1.0 : 0.0) : std::exp(x - top)); // inf - inf is not a number
    });
    for (std::size_t i = 0; i < y.size(); ++i)
        if (!std::isinf(y[i])) y[i] += std::log(total[i]);
}

void argmax(const Call& call) {
    const auto [outer, length, inner] = around_axis(call.in(0).shape, call.node.integer("axis"));
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i) {
            const double* x = call.data(0) + o * length * inner + i;
            int64_t best = 0;
            for (int64_t j = 1; j < length; ++j)
                if (above(x[j * inner], x[best * inner])) best = j;
            call.out().data[at(o * inner + i)] = static_cast<double>(best);
        }
}

// Calls f(element, place, first) for the elements of each line along the axis, in the order of the scan; `place` is
// the element's index along the axis, `first` begins a line.
template<class F>
void scan(const Call& call, F f) {
    const auto [outer, length, inner] = around_axis(call.in(0).shape, call.node.integer("axis"));
    const bool reverse = call.node.integer("reverse") != 0;
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i)
            for (int64_t j = 0; j < length; ++j) {
                const int64_t place = reverse ? length - 1 - j : j;
                f(at((o * length + place) * inner + i), place, j == 0);
            }
}

void running(const Call& call) {
    const double* x = call.data(0);
    std::vector<double>& y = call.out().data;
    double total = 0, top = 0;
    switch (call.node.op) {
    case Op::cumsum:
        scan(call, [&](std::size_t i, int64_t, bool first) {
            total = first ? x[i] : total + x[i];
            if (call.out().kind == Kind::int32) total = wrapped(static_cast<int64_t>(total));
            y[i] = total;
        });
        break;
    case Op::cumprod:
        scan(call, [&](std::size_t i, int64_t, bool first) {
            if (call.out().kind == Kind::int32 && !first)
                total = wrapped(static_cast<int64_t>(total) * static_cast<int64_t>(x[i])); // exact
            else
                total = first ? x[i] : total * x[i];
            y[i] = total;
        });
        break;
    case Op::cummax:
        scan(call, [&](std::size_t i, int64_t place, bool first) {
            if (first || !above(total, x[i])) {
                total = x[i];
                top = static_cast<double>(place);
            }
            y[i] = total;
            call.out(1).data[i] = top;
        });
        break;
    case Op::logcumsumexp: // total is relative to the maximum
        scan(call, [&](std::size_t i, int64_t, bool first) {
            if (first || x[i] > top) {
                total = (first ? 0.0 : total * std::exp(top - x[i])) + 1.0;
                top = x[i];
            } else {
                total += x[i] == top ? 1.0 : std::exp(x[i] - top); // inf - inf is not a number
            }
            y[i] = top + std::log(total);
        });
        break;
    default: { // scan_linear
        const auto [outer, length, inner] = around_axis(call.in(0).shape, call.node.integer("axis"));
        const std::size_t block = at(length * inner), width = at(inner);
        const bool initial = call.has(2);
        scan(call, [&, initial](std::size_t i, int64_t, bool first) {
            if (first && initial) total = call.data(2)[i / block * width + i % width];
            total = x[i] + (first && !initial ? 0.0 : call.data(1)[i] * total);
            y[i] = total;
        });
    }
    }
}

void top_k(const Call& call) {
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
}

} // namespace

Status run_reduce(const Call& call) {
    switch (call.node.op) {
    case Op::sum: sum(call); break;
    case Op::mean: mean(call); break;
    case Op::max: max(call); break;
    case Op::logsumexp: logsumexp(call); break;
    case Op::argmax: argmax(call); break;
    case Op::top_k: top_k(call); break;
    default: running(call);
    }
    return {};
}

} // namespace hekla::graph::reference
