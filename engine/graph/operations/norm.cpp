// Normalizations over the last axis, and their gradients.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

#include <cmath>

namespace hekla::graph {
namespace {

Result<Outputs> norm_outputs(const Rule& r) {
    if (r.shape(0).rank() == 0 || r.shape(0)[-1] == 0) return r.error("x is {}, expected [..., D]", r.text(0));
    const Shape row{r.shape(0)[-1]};
    HK_TRY(r.expect(1, row));
    HK_TRY(r.expect(2, row));
    Shape statistics = r.shape(0);
    statistics.erase(-1);
    Outputs outputs{{r.kind(0), r.shape(0)}, {Kind::float32, statistics}};
    if (r.node.op == Op::layer_norm) outputs.push_back({Kind::float32, statistics});
    return outputs;
}

// The gradient of a norm by operations that have gradients: with n = (x - mean) / deviation (or without a mean) and d =
// dy gain, dx = (d - mean(d) - n mean(d n)) / deviation.
void composed_norm_gradient(Backward& b) {
    const bool centered = b.node().op == Op::layer_norm;
    const ValueId x = b.x(0), dy = b.dy();
    const Shape shape = b.shape(x);
    const int64_t last = shape.rank() - 1;
    const auto mean = [&](ValueId value) {
        return b.builder()(Op::mean, {value}, {{"axes", std::vector<int64_t>{last}}, {"keep", int64_t{1}}});
    };
    const ValueId from_mean = centered ? b.sub(x, mean(x)) : x;
    const ValueId deviation =
        b.builder()(Op::sqrt, {b.shift(mean(b.mul(from_mean, from_mean)), b.node().real("epsilon"))});
    const ValueId n = b.div(from_mean, deviation);
    if (b.wants(1)) b.give(1, b.mul(dy, n));
    if (centered && b.wants(2)) b.give(2, dy);
    if (!b.wants(0)) return;
    const ValueId d = b.x(1) != kNone ? b.mul(dy, b.x(1)) : dy;
    const ValueId along = b.mul(n, mean(b.mul(d, n)));
    b.give(0, b.div(b.sub(centered ? b.sub(d, mean(d)) : d, along), deviation));
}

// The layer as [rows, width].
struct Rows {
    int64_t rows, width;
    explicit Rows(const Shape& shape) : rows(0), width(shape[-1]) {
        if (width > 0) rows = shape.elements() / width;
    }
};

void layer_norm_gradient(Backward& b) {
    if (b.again()) return composed_norm_gradient(b);
    const ValueId inputs[] = {b.dy(), b.x(0), b.y(1), b.y(2), b.x(1)};
    b.give_each(b.builder().emit(Op::layer_norm_gradient, inputs));
}

Status run_layer_norm(const Call& call) {
    const Rows size(call.in(0).shape);
    const double epsilon = call.node.real("epsilon");
    const double* gain = call.data(1);
    const double* bias = call.data(2);
    const double width = static_cast<double>(size.width);
    for (int64_t row = 0; row < size.rows; ++row) {
        const double* x = call.data(0) + row * size.width;
        double* y = call.out().data.data() + row * size.width;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < size.width; ++i) mean += x[i];
        mean /= width;
        for (int64_t i = 0; i < size.width; ++i) variance += (x[i] - mean) * (x[i] - mean);
        const double inverse = 1 / std::sqrt(variance / width + epsilon);
        for (int64_t i = 0; i < size.width; ++i)
            y[i] = (x[i] - mean) * inverse * (gain ? gain[i] : 1) + (bias ? bias[i] : 0);
        call.out(1).data[at(row)] = mean;
        call.out(2).data[at(row)] = inverse;
    }
    return {};
}

void rms_norm_gradient(Backward& b) {
    if (b.again()) return composed_norm_gradient(b);
    const ValueId inputs[] = {b.dy(), b.x(0), b.y(1), b.x(1)};
    b.give_each(b.builder().emit(Op::rms_norm_gradient, inputs));
}

Status run_rms_norm(const Call& call) {
    const Rows size(call.in(0).shape);
    const double epsilon = call.node.real("epsilon");
    const double* gain = call.data(1);
    for (int64_t row = 0; row < size.rows; ++row) {
        const double* x = call.data(0) + row * size.width;
        double* y = call.out().data.data() + row * size.width;
        double squares = 0;
        for (int64_t i = 0; i < size.width; ++i) squares += x[i] * x[i];
        const double inverse = 1 / std::sqrt(squares / static_cast<double>(size.width) + epsilon);
        for (int64_t i = 0; i < size.width; ++i) y[i] = x[i] * inverse * (gain ? gain[i] : 1);
        call.out(1).data[at(row)] = inverse;
    }
    return {};
}

Result<Outputs> norm_gradient_outputs(const Rule& r) {
    if (r.shape(0).rank() == 0) return r.error("dy is a scalar, expected [..., D]");
    HK_TRY(r.expect(1, r.shape(0)));
    const Shape row{r.shape(0)[-1]};
    Shape statistics = r.shape(0);
    statistics.erase(-1);
    const std::size_t gain = r.node.op == Op::layer_norm_gradient ? 4 : 3;
    for (std::size_t i = 2; i < gain; ++i) HK_TRY(r.expect(i, statistics));
    HK_TRY(r.expect(gain, row));
    Outputs outputs{{r.kind(1), r.shape(1)}, {Kind::float32, row}};
    if (r.node.op == Op::layer_norm_gradient) outputs.push_back({Kind::float32, row});
    return outputs;
}

// With n the normalized x and g = dy * gain: dx = inverse (g - mean(g) - n mean(g n)). rms_norm has no mean(g) term,
// because it does not subtract the mean.
Status run_norm_gradient(const Call& call, const double* mean, const double* inverse, const double* gain) {
    const Rows size(call.in(1).shape);
    double* dgain = call.out(1).data.data();
    double* dbias = mean ? call.out(2).data.data() : nullptr;
    const double width = static_cast<double>(size.width);
    for (int64_t row = 0; row < size.rows; ++row) {
        const double* dy = call.data(0) + row * size.width;
        const double* x = call.data(1) + row * size.width;
        double* dx = call.out().data.data() + row * size.width;
        const double center = mean ? mean[row] : 0;
        double sum = 0, product = 0;
        for (int64_t i = 0; i < size.width; ++i) {
            const double n = (x[i] - center) * inverse[row];
            const double g = dy[i] * (gain ? gain[i] : 1);
            sum += g;
            product += g * n;
            dgain[i] += dy[i] * n;
            if (dbias) dbias[i] += dy[i];
        }
        const double shift = mean ? sum / width : 0;
        for (int64_t i = 0; i < size.width; ++i) {
            const double n = (x[i] - center) * inverse[row];
            dx[i] = inverse[row] * (dy[i] * (gain ? gain[i] : 1) - shift - n * product / width);
        }
    }
    return {};
}

Status run_layer_norm_gradient(const Call& call) {
    return run_norm_gradient(call, call.data(2), call.data(3), call.data(4));
}

Status run_rms_norm_gradient(const Call& call) { return run_norm_gradient(call, nullptr, call.data(2), call.data(3)); }

} // namespace

const OperationRules layer_norm_rules{norm_outputs, layer_norm_gradient, run_layer_norm};
const OperationRules layer_norm_gradient_rules{norm_gradient_outputs, nullptr, run_layer_norm_gradient};
const OperationRules rms_norm_rules{norm_outputs, rms_norm_gradient, run_rms_norm};
const OperationRules rms_norm_gradient_rules{norm_gradient_outputs, nullptr, run_rms_norm_gradient};

} // namespace hekla::graph
