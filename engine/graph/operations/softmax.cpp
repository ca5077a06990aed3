// Softmax along an axis, its logarithm, and its gradient.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>
#include <cmath>

namespace hekla::graph {
namespace {

void softmax_gradient(Backward& b) {
    b.give(0, b.builder()(Op::softmax_gradient, {b.dy(), b.y()}, {{"axis", b.node().integer("axis")}}));
}

void log_softmax_gradient(Backward& b) {
    const ValueId dy = b.dy();
    const ValueId total = b.sum(dy, {from_start(b.node().integer("axis"), b.shape(b.x()).rank())}, true);
    b.give(0, b.sub(dy, b.mul(b.builder()(Op::exp, {b.y()}), total)));
}

Status run_softmax(const Call& call) {
    const auto [outer, length, step] = around_axis(call.in(0).shape, call.node.integer("axis"));
    const bool logarithm = call.node.op == Op::log_softmax;
    if (length == 0) return {};
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < step; ++i) {
            const int64_t first = o * length * step + i;
            const double* x = call.data(0) + first;
            double* y = call.out().data.data() + first;
            double top = x[0], total = 0;
            for (int64_t j = 1; j < length; ++j) top = std::max(top, x[j * step]);
            for (int64_t j = 0; j < length; ++j) total += y[j * step] = std::exp(x[j * step] - top);
            const double lse = std::log(total);
            for (int64_t j = 0; j < length; ++j)
                y[j * step] = logarithm ? x[j * step] - top - lse : y[j * step] / total;
        }
    return {};
}

Result<Outputs> softmax_gradient_outputs(const Rule& r) {
    HK_TRY(r.axis("axis", r.shape(0)).status());
    HK_TRY(r.expect(1, r.shape(0)));
    return one(r.kind(0), r.shape(0));
}

void softmax_gradient_gradient(Backward& b) {
    const int64_t axis = from_start(b.node().integer("axis"), b.shape(b.x()).rank());
    const ValueId dy = b.dy(), of = b.x(1), before = b.x(0); // y, and the gradient of the result
    if (b.wants(0)) b.give(0, b.builder()(Op::softmax_gradient, {dy, of}, {{"axis", axis}}));
    const auto mean = [&](ValueId value) { return b.sum(b.mul(value, of), {axis}, true); };
    if (b.wants(1)) b.give(1, b.sub(b.mul(dy, before), b.add(b.mul(dy, mean(before)), b.mul(before, mean(dy)))));
}

Status run_softmax_gradient(const Call& call) {
    const auto [outer, length, step] = around_axis(call.in(0).shape, call.node.integer("axis"));
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < step; ++i) {
            const int64_t first = o * length * step + i;
            const double* dy = call.data(0) + first;
            const double* y = call.data(1) + first;
            double total = 0;
            for (int64_t j = 0; j < length; ++j) total += dy[j * step] * y[j * step];
            for (int64_t j = 0; j < length; ++j)
                call.out().data[at(first + j * step)] = y[j * step] * (dy[j * step] - total);
        }
    return {};
}

} // namespace

const OperationRules softmax_rules{along_axis, softmax_gradient, run_softmax};
const OperationRules log_softmax_rules{along_axis, log_softmax_gradient, run_softmax};
const OperationRules softmax_gradient_rules{softmax_gradient_outputs, softmax_gradient_gradient, run_softmax_gradient};

} // namespace hekla::graph
