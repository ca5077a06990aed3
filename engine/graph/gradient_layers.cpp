// Gradients of the operations with dedicated kernels: matrices, norms, rotary positions, attention, recurrent layers,
// cross entropy.
#include "graph/gradient/backward.hpp"

namespace hekla::graph {
namespace {

// Reshapes [..., N] to [rows, N].
ValueId rows_of(Backward& b, ValueId value) {
    const Shape& shape = b.shape(value);
    const int64_t last = shape[-1];
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
    return b.reshape(value, Shape{rows, last});
}

int64_t batch_elements(const Shape& shape) {
    int64_t count = 1;
    for (int axis = 0; axis + 2 < shape.rank(); ++axis) count *= shape[axis];
    return count;
}

void matmul_gradient(Backward& b) {
    const bool ta = b.node().integer("transpose_a") != 0, tb = b.node().integer("transpose_b") != 0;
    const ValueId dy = b.dy(), a = b.x(0), w = b.x(1);
    if (b.wants(0)) b.give(0, ta ? b.matmul(w, dy, tb, true) : b.matmul(dy, w, false, !tb));
    if (!b.wants(1)) return;
    if (!ta && batch_elements(b.shape(w)) == 1) {
        // The same b for every matrix of a: one product over all rows, instead of one per matrix and a sum.
        const ValueId rows = rows_of(b, a), drows = rows_of(b, dy);
        b.give_product(1, tb ? drows : rows, tb ? rows : drows);
        return;
    }
    b.give(1, tb ? b.matmul(dy, a, true, ta) : b.matmul(a, dy, !ta, false));
}

void linear_gradient(Backward& b) {
    const bool input_first = b.node().integer("input_first") != 0;
    const ValueId dy = b.dy();
    if (b.wants(0)) b.give(0, b.builder()(Op::linear, {dy, b.x(1)}, {{"input_first", int64_t{!input_first}}}));
    const ValueId drows = rows_of(b, dy);
    if (b.wants(1)) {
        const ValueId rows = rows_of(b, b.x(0));
        b.give_product(1, input_first ? rows : drows, input_first ? drows : rows);
    }
    if (b.wants(2)) b.give(2, b.sum(drows, {0}, false));
}

// The gradient of a row's matrix is a product; those of one matrix are added in the order of the rows.
void row_linear_gradient(Backward& b) {
    const bool input_first = b.node().integer("input_first") != 0;
    const ValueId dy = b.dy(), choice = b.x(2);
    if (b.wants(0))
        b.give(0, b.builder()(Op::row_linear, {dy, b.x(1), choice}, {{"input_first", int64_t{!input_first}}}));
    if (!b.wants(1)) return;
    const int64_t rows = b.shape(dy)[0];
    int64_t tokens = 1;
    for (int axis = 1; axis + 1 < b.shape(dy).rank(); ++axis) tokens *= b.shape(dy)[axis];
    if (tokens == 1) {
        const auto by_row = [&](ValueId value) { return b.reshape(value, Shape{rows, b.shape(value)[-1]}); };
        b.give(1, b.builder()(Op::row_linear_gradient, {by_row(dy), by_row(b.x(0)), choice},
                              {{"matrices", b.shape(b.x(1))[0]}, {"input_first", int64_t{input_first}}}));
        return;
    }
    const auto by_token = [&](ValueId value) { return b.reshape(value, Shape{rows, tokens, b.shape(value)[-1]}); };
    const ValueId x = by_token(b.x(0)), d = by_token(dy);
    const ValueId by_row = input_first ? b.matmul(x, d, true, false) : b.matmul(d, x, true, false);
    const Shape weights = b.shape(b.x(1));
    const ValueId sums =
        b.builder()(Op::embedding_gradient, {b.reshape(by_row, Shape{rows, weights[1] * weights[2]}), choice},
                    {{"rows", weights[0]}, {"no_gradient_id", int64_t{-1}}});
    b.give(1, b.reshape(sums, weights));
}

// The result is linear in dy and in x.
void row_linear_gradient_gradient(Backward& b) {
    const int64_t input_first = b.node().integer("input_first");
    const auto product = [&](ValueId rows, int64_t first) {
        return b.builder()(Op::row_linear, {rows, b.dy(), b.x(2)}, {{"input_first", first}});
    };
    if (b.wants(0)) b.give(0, product(b.x(1), input_first));
    if (b.wants(1)) b.give(1, product(b.x(0), 1 - input_first));
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

void layer_norm_gradient(Backward& b) {
    if (b.again()) return composed_norm_gradient(b);
    const ValueId inputs[] = {b.dy(), b.x(0), b.y(1), b.y(2), b.x(1)};
    const std::vector<ValueId> d = b.builder().emit(Op::layer_norm_gradient, inputs);
    for (std::size_t i = 0; i < d.size(); ++i) b.give(i, d[i]);
}

void rms_norm_gradient(Backward& b) {
    if (b.again()) return composed_norm_gradient(b);
    const ValueId inputs[] = {b.dy(), b.x(0), b.y(1), b.x(1)};
    const std::vector<ValueId> d = b.builder().emit(Op::rms_norm_gradient, inputs);
    for (std::size_t i = 0; i < d.size(); ++i) b.give(i, d[i]);
}

// y1 = x1 c - x2 s, y2 = x2 c + x1 s (with s negative for inverse): the gradient of c and s is summed over the heads
// and over all tokens at that position.
void rotary_table_gradient(Backward& b) {
    const ValueId x = b.x(0), dy = b.dy();
    const Shape xs = b.shape(x), table = b.shape(b.x(1));
    const int64_t half = table[1];
    const bool interleaved = b.node().integer("interleaved") != 0;
    const auto part = [&](ValueId value, int64_t which) {
        return interleaved ? b.slice(value, 3, which, half, 2) : b.slice(value, 3, which * half, half);
    };
    if (half == 0) return;
    ValueId positions = b.x(3);
    if (positions == kNone) positions = b.builder().positions(xs[0], xs[2]);
    const auto to_table = [&](ValueId by_token) { // [B, H, T, R/2]
        return b.builder()(Op::embedding_gradient, {b.sum(by_token, {1}, false), positions}, {{"rows", table[0]}});
    };
    const ValueId x1 = part(x, 0), x2 = part(x, 1), d1 = part(dy, 0), d2 = part(dy, 1);
    if (b.wants(1)) b.give(1, to_table(b.add(b.mul(d1, x1), b.mul(d2, x2))));
    if (b.wants(2)) {
        const ValueId turned = b.sub(b.mul(d2, x1), b.mul(d1, x2));
        b.give(2, to_table(b.node().integer("inverse") != 0 ? b.neg(turned) : turned));
    }
}

void rotary_gradient(Backward& b) {
    const Node& node = b.node();
    if (b.wants(0))
        b.give(0, b.builder()(Op::rotary, {b.dy(), b.x(1), b.x(2), b.x(3)},
                              {{"interleaved", node.integer("interleaved")},
                               {"inverse", int64_t{node.integer("inverse") == 0}}}));
    if (b.wants(1) || b.wants(2)) rotary_table_gradient(b);
}

std::vector<NamedAttribute> attributes_of(const Node& node) {
    std::vector<NamedAttribute> attributes;
    for (const Attribute& attribute : node.attributes) attributes.push_back({attribute.name, attribute.value});
    return attributes;
}

void attention_gradient(Backward& b) {
    std::vector<ValueId> inputs{b.dy(), b.y(0), b.y(1)};
    inputs.insert(inputs.end(), b.node().inputs.begin(), b.node().inputs.end());
    int64_t wanted = 0;
    for (std::size_t i = 0; i < 8; ++i)
        if (b.wants(i)) wanted |= int64_t{1} << i;
    std::vector<NamedAttribute> attributes = attributes_of(b.node());
    attributes.push_back({"wanted", wanted});
    const std::vector<ValueId> d = b.builder().emit(Op::attention_gradient, inputs, attributes);
    for (std::size_t i = 0; i < d.size(); ++i)
        if (b.wants(i)) b.give(i, d[i]);
}

void gru_gradient(Backward& b) {
    const ValueId inputs[] = {b.dy(0), b.dy(1), b.y(0), b.x(0), b.x(1), b.x(2), b.x(3), b.x(4), b.x(5), b.x(6)};
    const std::vector<ValueId> d = b.builder().emit(Op::gru_gradient, inputs, attributes_of(b.node()));
    constexpr std::size_t kInputs[] = {0, 1, 2, 3, 4, 6}; // input 5 is lengths
    for (std::size_t i = 0; i < d.size(); ++i) b.give(kInputs[i], d[i]);
}

void lstm_gradient(Backward& b) {
    const ValueId inputs[] = {b.dy(0), b.dy(1), b.dy(2), b.y(0), b.y(3), b.x(0), b.x(1),
                              b.x(2),  b.x(3),  b.x(4),  b.x(5), b.x(6), b.x(7)};
    const std::vector<ValueId> d = b.builder().emit(Op::lstm_gradient, inputs, attributes_of(b.node()));
    constexpr std::size_t kInputs[] = {0, 1, 2, 3, 4, 6, 7};
    for (std::size_t i = 0; i < d.size(); ++i) b.give(kInputs[i], d[i]);
}

// Class weights are rarely trained. If they are, dweights[c] = (1 - s) sum of d over the rows labeled c times their
// -log p, and s/V sum over all rows of d times -log p[c].
void class_weight_gradient(Backward& b) {
    Builder& build = b.builder();
    const double smoothing = b.node().real("smoothing");
    const ValueId labels = rows_of(b, b.reshape(b.x(1), [&] {
        Shape shape = b.shape(b.x(1));
        shape.push_back(1);
        return shape;
    }())); // [N, 1]
    const ValueId logits = rows_of(b, b.x(0));
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

void linear_cross_entropy_gradient(Backward& b) {
    const Node& node = b.node();
    if (b.wants(4)) { // fold_cross_entropy() does not change such a loss
        b.builder().fail(unsupported("linear_cross_entropy has no gradient towards class weights"));
        return;
    }
    int64_t wanted = 0;
    for (std::size_t i = 0; i < 3; ++i)
        if (b.wants(i)) wanted |= int64_t{1} << i;
    const ValueId inputs[] = {b.dy(), b.x(0), b.x(1), b.x(2), b.x(3), b.y(1), b.x(4)};
    const NamedAttribute attributes[] = {{"input_first", node.integer("input_first")},
                                         {"ignore_index", node.integer("ignore_index")},
                                         {"smoothing", node.real("smoothing")},
                                         {"chunk", node.integer("chunk")},
                                         {"wanted", wanted}};
    const std::vector<ValueId> d = b.builder().emit(Op::linear_cross_entropy_gradient, inputs, attributes);
    for (std::size_t i = 0; i < d.size(); ++i)
        if (b.wants(i)) b.give(i, d[i]);
}

} // namespace

bool layer_gradient(Backward& b) {
    switch (b.node().op) {
    case Op::matmul: matmul_gradient(b); return true;
    case Op::linear: linear_gradient(b); return true;
    case Op::row_linear: row_linear_gradient(b); return true;
    case Op::row_linear_gradient: row_linear_gradient_gradient(b); return true;
    case Op::layer_norm: layer_norm_gradient(b); return true;
    case Op::rms_norm: rms_norm_gradient(b); return true;
    case Op::rotary: rotary_gradient(b); return true;
    case Op::attention: attention_gradient(b); return true;
    case Op::gru: gru_gradient(b); return true;
    case Op::lstm: lstm_gradient(b); return true;
    case Op::cross_entropy: cross_entropy_gradient(b); return true;
    case Op::linear_cross_entropy: linear_cross_entropy_gradient(b); return true;
    default: return false;
    }
}

} // namespace hekla::graph
