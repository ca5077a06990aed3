// The interpreter's normalizations over the last or another axis, and their gradients.
#include "graph/reference/call.hpp"

#include <algorithm>
#include <cmath>

namespace hekla::graph::reference {

namespace {

// The layer as [rows, width].
struct Rows {
    int64_t rows, width;
    explicit Rows(const Shape& shape) : rows(0), width(shape[-1]) {
        if (width > 0) rows = shape.elements() / width;
    }
};

void layer_norm(const Call& call) {
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
}

void rms_norm(const Call& call) {
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
}

// With n the normalized x and g = dy * gain: dx = inverse (g - mean(g) - n mean(g n)). rms_norm has no mean(g) term,
// because it does not subtract the mean.
void norm_gradient(const Call& call, const double* mean, const double* inverse, const double* gain) {
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
}

void softmax(const Call& call) {
    const auto [outer, length, step] = around_axis(call.in(0).shape, call.node.integer("axis"));
    const bool logarithm = call.node.op == Op::log_softmax;
    if (length == 0) return;
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
}

void softmax_gradient(const Call& call) {
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
}

} // namespace

Status run_norm(const Call& call) {
    switch (call.node.op) {
    case Op::layer_norm: layer_norm(call); break;
    case Op::rms_norm: rms_norm(call); break;
    case Op::layer_norm_gradient: norm_gradient(call, call.data(2), call.data(3), call.data(4)); break;
    case Op::rms_norm_gradient: norm_gradient(call, nullptr, call.data(2), call.data(3)); break;
    case Op::softmax_gradient: softmax_gradient(call); break;
    default: softmax(call); // and log_softmax
    }
    return {};
}

} // namespace hekla::graph::reference
