// The interpreter's cross entropy and its gradient, from given logits and from a linear.
#include "graph/reference/call.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::graph::reference {

namespace {

// Rows of logits, and the options of the loss.
class CrossEntropy {
public:
    CrossEntropy(const Call& call, int64_t rows, int64_t classes, const double* labels, const double* class_weights)
        : rows_(rows), classes_(classes), ignore_index_(call.node.integer("ignore_index")),
          smoothing_(call.node.real("smoothing")), labels_(labels), weights_(class_weights) {
        for (int64_t c = 0; c < classes; ++c) total_weight_ += weight(c);
    }

    Status forward(const double* logits, Tensor& loss, Tensor& lse) const {
        for (int64_t row = 0; row < rows_; ++row) {
            const double* x = logits + row * classes_;
            const double top = *std::max_element(x, x + classes_);
            double total = 0;
            for (int64_t c = 0; c < classes_; ++c) total += std::exp(x[c] - top);
            const double sum = top + std::log(total);
            lse.data[at(2 * row)] = top;
            lse.data[at(2 * row + 1)] = std::log(total);
            const int64_t label = static_cast<int64_t>(labels_[row]);
            if (label == ignore_index_) continue;
            HK_TRY(label_ok(row, label));
            double value = (1 - smoothing_) * weight(label) * (sum - x[label]);
            if (smoothing_ != 0) {
                double all = 0;
                for (int64_t c = 0; c < classes_; ++c) all += weight(c) * (sum - x[c]);
                value += smoothing_ / static_cast<double>(classes_) * all;
            }
            loss.data[at(row)] = value;
        }
        return {};
    }

    // dlogits may alias logits.
    Status backward(const double* dloss, const double* logits, const double* lse, double* dlogits) const {
        const double share = smoothing_ / static_cast<double>(classes_);
        for (int64_t row = 0; row < rows_; ++row) {
            const double* x = logits + row * classes_;
            double* dx = dlogits + row * classes_;
            const int64_t label = static_cast<int64_t>(labels_[row]);
            if (label == ignore_index_) {
                std::fill_n(dx, classes_, 0.0);
                continue;
            }
            HK_TRY(label_ok(row, label));
            const double of_label = (1 - smoothing_) * weight(label);
            for (int64_t c = 0; c < classes_; ++c) {
                const double p = std::exp(x[c] - lse[2 * row] - lse[2 * row + 1]);
                dx[c] = dloss[row] * (p * (of_label + share * total_weight_) - share * weight(c));
            }
            dx[label] -= dloss[row] * of_label;
        }
        return {};
    }

private:
    double weight(int64_t c) const { return weights_ ? weights_[c] : 1; }
    Status label_ok(int64_t row, int64_t label) const {
        if (label >= 0 && label < classes_) return {};
        return invalid_argument(fmt::format("label {} of row {} is neither a class, 0 to {}, nor ignore_index {}",
                                            label, row, classes_ - 1, ignore_index_));
    }

    int64_t rows_, classes_, ignore_index_;
    double smoothing_;
    const double* labels_;
    const double* weights_; // null: all 1
    double total_weight_ = 0;
};

// linear(x, weight, bias) of inputs `first` to first + 2: [N, V].
struct Linear {
    int64_t rows = 0, width = 0, classes = 0;
    bool input_first = false;
    std::vector<double> logits;

    Linear(const Call& call, std::size_t first)
        : rows(call.in(first).shape[0]), width(call.in(first).shape[1]),
          input_first(call.node.integer("input_first") != 0) {
        classes = call.in(first + 1).shape[input_first ? 1 : 0];
        logits.resize(at(rows * classes));
        multiply({rows, width, classes, false, !input_first}, call.data(first), call.data(first + 1), logits.data());
        if (const double* bias = call.data(first + 2))
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t c = 0; c < classes; ++c) logits[at(row * classes + c)] += bias[c];
    }
};

// The index of each row's largest logit, or of its first NaN.
void find_best(const Call& call, const Linear& linear, Tensor& to) {
    if (call.node.integer("best") == 0) return;
    for (int64_t row = 0; row < linear.rows; ++row) {
        const double* x = linear.logits.data() + row * linear.classes;
        int64_t best = 0;
        for (int64_t c = 1; c < linear.classes; ++c)
            if (x[c] > x[best] || (std::isnan(x[c]) && !std::isnan(x[best]))) best = c;
        to.data[at(row)] = static_cast<double>(best);
    }
}

// Computes the gradients of the linear from dlogits, as outputs `first` to first + 2.
void linear_gradient(const Call& call, const Linear& linear, std::size_t first) {
    const auto& [rows, width, classes, input_first, logits] = linear;
    const double* d = logits.data();
    const int64_t wanted = call.node.integer("wanted");
    if ((wanted & 1) != 0)
        multiply({rows, classes, width, false, input_first}, d, call.data(2), call.out(first).data.data());
    if ((wanted & 2) != 0 && input_first)
        multiply({width, rows, classes, true, false}, call.data(1), d, call.out(first + 1).data.data());
    if ((wanted & 2) != 0 && !input_first)
        multiply({classes, rows, width, true, false}, d, call.data(1), call.out(first + 1).data.data());
    if ((wanted & 4) != 0)
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t c = 0; c < classes; ++c) call.out(first + 2).data[at(c)] += d[row * classes + c];
}

Status linear_cross_entropy(const Call& call) {
    const Linear linear(call, 0);
    const CrossEntropy loss(call, linear.rows, linear.classes, call.data(3), call.data(4));
    HK_TRY(loss.forward(linear.logits.data(), call.out(0), call.out(1)));
    find_best(call, linear, call.out(2));
    return {};
}

Status linear_cross_entropy_gradient(const Call& call) {
    Linear linear(call, 1);
    const CrossEntropy loss(call, linear.rows, linear.classes, call.data(4), call.data(6));
    HK_TRY(loss.backward(call.data(0), linear.logits.data(), call.data(5), linear.logits.data()));
    linear_gradient(call, linear, 0);
    return {};
}

Status linear_cross_entropy_with_gradient(const Call& call) {
    Linear linear(call, 1);
    const CrossEntropy loss(call, linear.rows, linear.classes, call.data(4), call.data(5));
    Tensor lse;
    lse.data.resize(at(2 * linear.rows));
    HK_TRY(loss.forward(linear.logits.data(), call.out(0), lse));
    find_best(call, linear, call.out(1));
    HK_TRY(loss.backward(call.data(0), linear.logits.data(), lse.data.data(), linear.logits.data()));
    linear_gradient(call, linear, 2);
    return {};
}

} // namespace

Status run_loss(const Call& call) {
    if (call.node.op == Op::linear_cross_entropy) return linear_cross_entropy(call);
    if (call.node.op == Op::linear_cross_entropy_gradient) return linear_cross_entropy_gradient(call);
    if (call.node.op == Op::linear_cross_entropy_with_gradient) return linear_cross_entropy_with_gradient(call);
    const bool back = call.node.op == Op::cross_entropy_gradient;
    const Shape& logits = call.in(back ? 1 : 0).shape;
    const int64_t classes = logits[-1];
    const CrossEntropy loss(call, logits.elements() / classes, classes, call.data(back ? 2 : 1),
                            call.data(back ? 4 : 2));
    return back ? loss.backward(call.data(0), call.data(1), call.data(3), call.out().data.data())
                : loss.forward(call.data(0), call.out(0), call.out(1));
}

} // namespace hekla::graph::reference
