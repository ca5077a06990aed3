// Cross entropy and its gradient, of given logits and of those of a linear.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"
#include "graph/reference/multiply.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::graph {
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

Result<Outputs> cross_entropy_outputs(const Rule& r) {
    const bool back = r.node.op == Op::cross_entropy_gradient;
    const std::size_t logits = back ? 1 : 0;
    const Shape& x = r.shape(logits);
    if (x.rank() == 0 || x[-1] == 0) return r.error("logits are {}, expected [..., V]", x.text());
    Shape rows = x;
    rows.erase(-1);
    HK_TRY(r.expect(logits + 1, rows));
    HK_TRY(r.expect(back ? 4 : 2, Shape{x[-1]}));
    Shape pairs = rows; // the largest logit, and the logarithm of the sum of exp relative to it
    pairs.push_back(2);
    if (!back) return Outputs{{Kind::float32, rows}, {Kind::float32, pairs}};
    HK_TRY(r.expect(0, rows));
    HK_TRY(r.expect(3, pairs));
    return one(r.kind(logits), x);
}

// Class weights are rarely trained. If they are, dweights[c] = (1 - s) sum of d over the rows labeled c times their
// -log p, and s/V sum over all rows of d times -log p[c].
void class_weight_gradient(Backward& b) {
    Builder& build = b.builder();
    const double smoothing = b.node().real("smoothing");
    const ValueId labels = b.rows(b.reshape(b.x(1), [&] {
        Shape shape = b.shape(b.x(1));
        shape.push_back(1);
        return shape;
    }())); // [N, 1]
    const ValueId logits = b.rows(b.x(0));
    const int64_t rows = b.shape(logits)[0], classes = b.shape(logits)[1];
    const ValueId counted =
        b.compare(labels, Relation::not_equal, static_cast<double>(b.node().integer("ignore_index")));
    const ValueId safe = b.where(counted, labels, b.number(labels, 0.0));
    const ValueId dloss = b.reshape(b.dy(), Shape{rows, 1});
    const ValueId d = b.where(counted, dloss, b.number(dloss, 0.0));
    const ValueId negative_log_p = b.neg(build(Op::log_softmax, {b.cast(logits, Kind::float32)}));
    const ValueId of_label = build(Op::gather, {negative_log_p, safe}, {{"batch_dimensions", int64_t{1}}}); // [N, 1]
    const ValueId flat = b.reshape(safe, Shape{rows});
    const ValueId hard = build(Op::embedding_gradient, {b.scale(b.mul(d, of_label), 1.0 - smoothing), flat},
                               {{"rows", classes}}); // [V, 1]
    b.give(2, b.reshape(hard, Shape{classes}));
    if (smoothing != 0.0)
        b.give(2, b.scale(b.sum(b.mul(d, negative_log_p), {0}, false), smoothing / static_cast<double>(classes)));
}

void cross_entropy_gradient(Backward& b) {
    const Node& node = b.node();
    if (b.wants(0))
        b.give(0, b.builder()(Op::cross_entropy_gradient, {b.dy(), b.x(0), b.x(1), b.y(1), b.x(2)},
                              {{"ignore_index", node.integer("ignore_index")}, {"smoothing", node.real("smoothing")}}));
    if (b.wants(2)) class_weight_gradient(b);
}

Status run_cross_entropy(const Call& call) {
    const Shape& logits = call.in(0).shape;
    const int64_t classes = logits[-1];
    const CrossEntropy loss(call, logits.elements() / classes, classes, call.data(1), call.data(2));
    return loss.forward(call.data(0), call.out(0), call.out(1));
}

Status run_cross_entropy_gradient(const Call& call) {
    const Shape& logits = call.in(1).shape;
    const int64_t classes = logits[-1];
    const CrossEntropy loss(call, logits.elements() / classes, classes, call.data(2), call.data(4));
    return loss.backward(call.data(0), call.data(1), call.data(3), call.out().data.data());
}

Result<Outputs> linear_cross_entropy_outputs(const Rule& r) {
    const bool forward = r.node.op != Op::linear_cross_entropy_gradient; // computes the loss
    const bool back = r.node.op != Op::linear_cross_entropy;
    const std::size_t x = back ? 1 : 0;
    HK_TRY(r.rank(x, 2, "[N, D]"));
    HK_TRY(r.rank(x + 1, 2, "[V, D], or [D, V] with input_first"));
    const int axis = r.node.integer("input_first") != 0 ? 1 : 0;
    const int64_t classes = r.shape(x + 1)[axis], width = r.shape(x)[1];
    const Shape rows{r.shape(x)[0]}, pairs{rows[0], 2};
    if (classes == 0 || r.shape(x + 1)[1 - axis] != width)
        return r.error("x is {} and weight {}: expected {} of {} numbers", r.text(x), r.text(x + 1),
                       axis == 1 ? "columns" : "rows", width);
    HK_TRY(r.expect(x + 2, Shape{classes}));
    HK_TRY(r.expect(x + 3, rows));
    HK_TRY(r.expect(forward ? x + 4 : 6, Shape{classes}));
    HK_TRY(soft_cap_ok(r));
    if (!std::isfinite(r.node.real("scale"))) return r.error("scale is {}, expected a number", r.node.real("scale"));
    Outputs outputs;
    if (forward) {
        outputs.push_back({Kind::float32, rows});
        if (!back) outputs.push_back({Kind::float32, pairs});
        outputs.push_back({Kind::int32, Shape{r.node.integer("best") != 0 ? rows[0] : 0}});
    }
    if (!back) return outputs;
    HK_TRY(r.expect(0, rows));
    if (!forward) HK_TRY(r.expect(5, pairs));
    const int64_t wanted = r.node.integer("wanted");
    const auto of = [&](int64_t bit, const Shape& shape) { return (wanted >> bit & 1) != 0 ? shape : Shape{0}; };
    outputs.push_back({r.kind(x), of(0, r.shape(x))});
    outputs.push_back({Kind::float32, of(1, r.shape(x + 1))});
    outputs.push_back({Kind::float32, of(2, Shape{classes})});
    return outputs;
}

void linear_cross_entropy_gradient(Backward& b) {
    const Node& node = b.node();
    if (b.wants(4)) { // fold_cross_entropy() does not change such a loss
        b.builder().fail(unsupported("linear_cross_entropy has no gradient towards class weights"));
        return;
    }
    const ValueId inputs[] = {b.dy(), b.x(0), b.x(1), b.x(2), b.x(3), b.y(1), b.x(4)};
    const NamedAttribute attributes[] = {{"input_first", node.integer("input_first")},
                                         {"ignore_index", node.integer("ignore_index")},
                                         {"smoothing", node.real("smoothing")},
                                         {"scale", node.real("scale")},
                                         {"softcap", node.real("softcap")},
                                         {"chunk", node.integer("chunk")},
                                         {"wanted", b.wanted(3)}};
    b.give_each(b.builder().emit(Op::linear_cross_entropy_gradient, inputs, attributes));
}

// linear(x, weight, bias) of inputs `first` to first + 2, scaled and with its soft cap: [N, V].
struct Linear {
    int64_t rows = 0, width = 0, classes = 0;
    bool input_first = false;
    std::vector<double> logits;
    std::vector<double> slopes; // derivatives of scale and soft cap; empty: all 1

    Linear(const Call& call, std::size_t first)
        : rows(call.in(first).shape[0]), width(call.in(first).shape[1]),
          input_first(call.node.integer("input_first") != 0) {
        classes = call.in(first + 1).shape[input_first ? 1 : 0];
        logits.resize(at(rows * classes));
        multiply({rows, width, classes, false, !input_first}, call.data(first), call.data(first + 1), logits.data());
        if (const double* bias = call.data(first + 2))
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t c = 0; c < classes; ++c) logits[at(row * classes + c)] += bias[c];
        const double scale = call.node.real("scale"), softcap = call.node.real("softcap");
        if (scale == 1 && softcap == 0) return;
        slopes.assign(logits.size(), scale);
        for (std::size_t i = 0; i < logits.size(); ++i) {
            logits[i] *= scale;
            if (softcap == 0) continue;
            const double t = std::tanh(logits[i] / softcap);
            logits[i] = softcap * t;
            slopes[i] *= 1 - t * t;
        }
    }

    // Replaces the logits by the gradient of the linear's result.
    Status differentiate(const CrossEntropy& loss, const double* dloss, const double* lse) {
        HK_TRY(loss.backward(dloss, logits.data(), lse, logits.data()));
        for (std::size_t i = 0; i < slopes.size(); ++i)
            if (logits[i] != 0) logits[i] *= slopes[i]; // an ignored row's may be NaN
        return {};
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

// Computes the gradients of a differentiated linear, as outputs `first` to first + 2.
void set_linear_gradient(const Call& call, const Linear& linear, std::size_t first) {
    const auto& [rows, width, classes, input_first, dlogits, slopes] = linear;
    const double* d = dlogits.data();
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

Status run_linear_cross_entropy(const Call& call) {
    const Linear linear(call, 0);
    const CrossEntropy loss(call, linear.rows, linear.classes, call.data(3), call.data(4));
    HK_TRY(loss.forward(linear.logits.data(), call.out(0), call.out(1)));
    find_best(call, linear, call.out(2));
    return {};
}

Status run_linear_cross_entropy_gradient(const Call& call) {
    Linear linear(call, 1);
    const CrossEntropy loss(call, linear.rows, linear.classes, call.data(4), call.data(6));
    HK_TRY(linear.differentiate(loss, call.data(0), call.data(5)));
    set_linear_gradient(call, linear, 0);
    return {};
}

Status run_linear_cross_entropy_with_gradient(const Call& call) {
    Linear linear(call, 1);
    const CrossEntropy loss(call, linear.rows, linear.classes, call.data(4), call.data(5));
    Tensor lse;
    lse.data.resize(at(2 * linear.rows));
    HK_TRY(loss.forward(linear.logits.data(), call.out(0), lse));
    find_best(call, linear, call.out(1));
    HK_TRY(linear.differentiate(loss, call.data(0), lse.data.data()));
    set_linear_gradient(call, linear, 2);
    return {};
}

} // namespace

const OperationRules cross_entropy_rules{cross_entropy_outputs, cross_entropy_gradient, run_cross_entropy};
const OperationRules cross_entropy_gradient_rules{cross_entropy_outputs, nullptr, run_cross_entropy_gradient};
const OperationRules linear_cross_entropy_rules{linear_cross_entropy_outputs, linear_cross_entropy_gradient,
                                                run_linear_cross_entropy};
const OperationRules linear_cross_entropy_gradient_rules{linear_cross_entropy_outputs, nullptr,
                                                         run_linear_cross_entropy_gradient};
const OperationRules linear_cross_entropy_with_gradient_rules{linear_cross_entropy_outputs, nullptr,
                                                              run_linear_cross_entropy_with_gradient};

} // namespace hekla::graph
