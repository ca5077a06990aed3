// The interpreter's cross entropy and its gradient.
#include "graph/reference_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::graph::reference {

namespace {

struct CrossEntropy {
    int64_t rows, classes;
    int64_t ignore_index;
    double smoothing;
    const double* weights; // null: all 1
    double total_weight = 0;

    CrossEntropy(const Call& call, std::size_t logits, const double* class_weights)
        : rows(0), classes(call.in(logits).shape[-1]), ignore_index(call.node.integer("ignore_index")),
          smoothing(call.node.real("smoothing")), weights(class_weights) {
        rows = call.in(logits).shape.elements() / classes;
        for (int64_t c = 0; c < classes; ++c) total_weight += weight(c);
    }
    double weight(int64_t c) const { return weights ? weights[c] : 1; }
    Status label_ok(int64_t row, int64_t label) const {
        if (label >= 0 && label < classes) return {};
        return invalid_argument(fmt::format("label {} of row {} is neither a class, 0 to {}, nor ignore_index {}",
                                            label, row, classes - 1, ignore_index));
    }
};

Status cross_entropy(const Call& call) {
    const CrossEntropy size(call, 0, call.data(2));
    for (int64_t row = 0; row < size.rows; ++row) {
        const double* x = call.data(0) + row * size.classes;
        const double top = *std::max_element(x, x + size.classes);
        double total = 0;
        for (int64_t c = 0; c < size.classes; ++c) total += std::exp(x[c] - top);
        const double lse = top + std::log(total);
        call.out(1).data[at(row)] = lse;
        const int64_t label = static_cast<int64_t>(call.data(1)[row]);
        if (label == size.ignore_index) continue;
        HK_TRY(size.label_ok(row, label));
        double loss = (1 - size.smoothing) * size.weight(label) * (lse - x[label]);
        if (size.smoothing != 0) {
            double all = 0;
            for (int64_t c = 0; c < size.classes; ++c) all += size.weight(c) * (lse - x[c]);
            loss += size.smoothing / static_cast<double>(size.classes) * all;
        }
        call.out(0).data[at(row)] = loss;
    }
    return {};
}

Status cross_entropy_gradient(const Call& call) {
    const CrossEntropy size(call, 1, call.data(4));
    const double share = size.smoothing / static_cast<double>(size.classes);
    for (int64_t row = 0; row < size.rows; ++row) {
        const int64_t label = static_cast<int64_t>(call.data(2)[row]);
        if (label == size.ignore_index) continue;
        HK_TRY(size.label_ok(row, label));
        const double dloss = call.data(0)[row];
        const double* x = call.data(1) + row * size.classes;
        double* dx = call.out().data.data() + row * size.classes;
        const double of_label = (1 - size.smoothing) * size.weight(label);
        for (int64_t c = 0; c < size.classes; ++c) {
            const double p = std::exp(x[c] - call.data(3)[row]);
            dx[c] = dloss * (p * (of_label + share * size.total_weight) - share * size.weight(c));
        }
        dx[label] -= dloss * of_label;
    }
    return {};
}

} // namespace

Status run_loss(const Call& call) {
    return call.node.op == Op::cross_entropy ? cross_entropy(call) : cross_entropy_gradient(call);
}

} // namespace hekla::graph::reference
