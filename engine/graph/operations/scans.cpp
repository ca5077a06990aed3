// Scans along an axis. NaN is larger than every number, as in PyTorch.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

#include <cmath>

namespace hekla::graph {
namespace {

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

// Calls f(element, place, first) for the elements of each line along the axis, in the order of the scan; `place` is
// the element's index along the axis, `first` begins a line.
template<class F>
void scan_lines(const Call& call, F f) {
    const auto [outer, length, inner] = around_axis(call.in(0).shape, call.node.integer("axis"));
    const bool reverse = call.node.integer("reverse") != 0;
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i)
            for (int64_t j = 0; j < length; ++j) {
                const int64_t place = reverse ? length - 1 - j : j;
                f(at((o * length + place) * inner + i), place, j == 0);
            }
}

void cumsum_gradient(Backward& b) {
    b.give(0,
           b.builder()(Op::cumsum, {b.dy()},
                       {{"axis", b.node().integer("axis")}, {"reverse", int64_t{b.node().integer("reverse") == 0}}}));
}

Status run_cumsum(const Call& call) {
    const double* x = call.data(0);
    std::vector<double>& y = call.out().data;
    double total = 0;
    scan_lines(call, [&](std::size_t i, int64_t, bool first) {
        total = first ? x[i] : total + x[i];
        if (call.out().kind == Kind::int32) total = wrapped(static_cast<int64_t>(total));
        y[i] = total;
    });
    return {};
}

// y[i] depends on x[j] by the product of the others up to i, so the gradient needs no division.
void cumprod_gradient(Backward& b) { b.give(0, b.mul(scanned_back(b, b.dy(), b.x()), neighbor(b, b.y(), false, 1.0))); }

Status run_cumprod(const Call& call) {
    const double* x = call.data(0);
    std::vector<double>& y = call.out().data;
    double total = 0;
    scan_lines(call, [&](std::size_t i, int64_t, bool first) {
        if (call.out().kind == Kind::int32 && !first)
            total = wrapped(static_cast<int64_t>(total) * static_cast<int64_t>(x[i])); // exact
        else
            total = first ? x[i] : total * x[i];
        y[i] = total;
    });
    return {};
}

Result<Outputs> cummax_outputs(const Rule& r) {
    HK_TRY(r.axis("axis", r.shape(0)).status());
    return Outputs{{r.kind(0), r.shape(0)}, {Kind::int32, r.shape(0)}};
}

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

Status run_cummax(const Call& call) {
    const double* x = call.data(0);
    std::vector<double>& y = call.out().data;
    double total = 0, top = 0;
    scan_lines(call, [&](std::size_t i, int64_t place, bool first) {
        if (first || !above(total, x[i])) {
            total = x[i];
            top = static_cast<double>(place);
        }
        y[i] = total;
        call.out(1).data[i] = top;
    });
    return {};
}

// The sum over i >= j of dy[i] exp(x[j] - y[i]), by factors exp(y[i - 1] - y[i]), which are at most 1.
void logcumsumexp_gradient(Backward& b) {
    const ValueId dy = b.dy();
    // Where y is -infinity, differences are 0 in place of NaN.
    const ValueId y = b.builder()(Op::maximum, {b.y(), b.number(b.y(), -1e38)});
    const ValueId factor = b.builder()(Op::exp, {b.sub(neighbor(b, y, false, -1e38), y)});
    b.give(0, b.mul(scanned_back(b, dy, factor), b.builder()(Op::exp, {b.sub(b.x(), y)})));
}

// The total is relative to the maximum.
Status run_logcumsumexp(const Call& call) {
    const double* x = call.data(0);
    std::vector<double>& y = call.out().data;
    double total = 0, top = 0;
    scan_lines(call, [&](std::size_t i, int64_t, bool first) {
        if (first || x[i] > top) {
            total = (first ? 0.0 : total * std::exp(top - x[i])) + 1.0;
            top = x[i];
        } else {
            total += x[i] == top ? 1.0 : std::exp(x[i] - top); // inf - inf is not a number
        }
        y[i] = top + std::log(total);
    });
    return {};
}

Result<Outputs> scan_linear_outputs(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    HK_TRY(r.expect(1, r.shape(0)));
    Shape line = r.shape(0);
    line.erase(axis);
    HK_TRY(r.expect(2, line));
    return one(r.kind(0), r.shape(0));
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

Status run_scan_linear(const Call& call) {
    const double* x = call.data(0);
    std::vector<double>& y = call.out().data;
    double total = 0;
    const auto [outer, length, inner] = around_axis(call.in(0).shape, call.node.integer("axis"));
    const std::size_t block = at(length * inner), width = at(inner);
    const bool initial = call.has(2);
    scan_lines(call, [&, initial](std::size_t i, int64_t, bool first) {
        if (first && initial) total = call.data(2)[i / block * width + i % width];
        total = x[i] + (first && !initial ? 0.0 : call.data(1)[i] * total);
        y[i] = total;
    });
    return {};
}

} // namespace

const OperationRules cumsum_rules{along_axis, cumsum_gradient, run_cumsum};
const OperationRules cumprod_rules{along_axis, cumprod_gradient, run_cumprod};
const OperationRules cummax_rules{cummax_outputs, cummax_gradient, run_cummax};
const OperationRules logcumsumexp_rules{along_axis, logcumsumexp_gradient, run_logcumsumexp};
const OperationRules scan_linear_rules{scan_linear_outputs, scan_linear_gradient, run_scan_linear};

} // namespace hekla::graph
