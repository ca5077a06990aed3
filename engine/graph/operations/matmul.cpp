// Matrix products.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"
#include "graph/reference/multiply.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

Result<Outputs> matmul_outputs(const Rule& r) {
    const Shape &a = r.shape(0), &b = r.shape(1);
    if (a.rank() < 2 || b.rank() < 2) return r.error("{} x {}: both need at least two dimensions", a.text(), b.text());
    const bool ta = r.node.integer("transpose_a") != 0, tb = r.node.integer("transpose_b") != 0;
    const int64_t m = a[ta ? -1 : -2], ka = a[ta ? -2 : -1], kb = b[tb ? -1 : -2], n = b[tb ? -2 : -1];
    const char *at = ta ? " transposed" : "", *bt = tb ? " transposed" : "";
    if (ka != kb) return r.error("{}{} x {}{}: inner dimensions {} and {} differ", a.text(), at, b.text(), bt, ka, kb);
    const Shape batch_a(a.dims().first(static_cast<std::size_t>(a.rank() - 2)));
    const Shape batch_b(b.dims().first(static_cast<std::size_t>(b.rank() - 2)));
    const std::optional<Shape> batch = broadcast_shapes(batch_a, batch_b);
    if (!batch) return r.error("{}{} x {}{}: leading dimensions do not broadcast", a.text(), at, b.text(), bt);
    Shape y = *batch;
    y.push_back(m);
    y.push_back(n);
    HK_TRY(sizes_ok(r, y.dims()));
    return one(joined(r.kind(0), r.kind(1)), y);
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
        const ValueId rows = b.rows(a), drows = b.rows(dy);
        b.give_product(1, tb ? drows : rows, tb ? rows : drows);
        return;
    }
    b.give(1, tb ? b.matmul(dy, a, true, ta) : b.matmul(a, dy, !ta, false));
}

Status run_matmul(const Call& call) {
    const Tensor& a = call.in(0);
    const Tensor& b = call.in(1);
    Tensor& y = call.out();
    Product product;
    product.transpose_a = call.node.integer("transpose_a") != 0;
    product.transpose_b = call.node.integer("transpose_b") != 0;
    product.m = y.shape[-2];
    product.n = y.shape[-1];
    product.k = a.shape[product.transpose_a ? -2 : -1];
    const auto leading = [](const Shape& shape) {
        return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2)));
    };
    const Shape batch = leading(y.shape);
    const int64_t a_size = product.m * product.k;
    const int64_t b_size = product.k * product.n;
    double* c = y.data.data();
    for_each_row<2>(batch, {broadcast_strides(leading(a.shape), batch), broadcast_strides(leading(b.shape), batch)}, {},
                    [&](const auto& offset, int64_t length, const auto& step) {
                        for (int64_t i = 0; i < length; ++i, c += product.m * product.n)
                            multiply(product, a.data.data() + (offset[0] + i * step[0]) * a_size,
                                     b.data.data() + (offset[1] + i * step[1]) * b_size, c);
                    });
    return {};
}

Result<Outputs> linear_outputs(const Rule& r) {
    HK_TRY(r.rank(1, 2, "two dimensions"));
    if (r.shape(0).rank() == 0) return r.error("x is a scalar, expected [..., in]");
    const bool input_first = r.node.integer("input_first") != 0;
    const int64_t in = r.shape(1)[input_first ? 0 : 1], out = r.shape(1)[input_first ? 1 : 0];
    if (r.shape(0)[-1] != in)
        return r.error("{} x {} ([{}]): inner dimensions {} and {} differ", r.text(0), r.text(1),
                       input_first ? "in, out" : "out, in", r.shape(0)[-1], in);
    HK_TRY(r.expect(2, Shape{out}));
    Shape y = r.shape(0);
    y[-1] = out;
    return one(joined(r.kind(0), r.kind(1)), y);
}

void linear_gradient(Backward& b) {
    const bool input_first = b.node().integer("input_first") != 0;
    const ValueId dy = b.dy();
    if (b.wants(0)) b.give(0, b.builder()(Op::linear, {dy, b.x(1)}, {{"input_first", int64_t{!input_first}}}));
    const ValueId drows = b.rows(dy);
    if (b.wants(1)) {
        const ValueId rows = b.rows(b.x(0));
        b.give_product(1, input_first ? rows : drows, input_first ? drows : rows);
    }
    if (b.wants(2)) b.give(2, b.sum(drows, {0}, false));
}

Status run_linear(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    Product product;
    product.k = x.shape[-1];
    product.n = y.shape[-1];
    product.m = 1;
    for (int axis = 0; axis + 1 < x.shape.rank(); ++axis) product.m *= x.shape[axis];
    product.transpose_b = call.node.integer("input_first") == 0;
    if (call.has(2)) {
        product.accumulate = true;
        for (int64_t row = 0; row < product.m; ++row)
            std::copy_n(call.data(2), product.n, y.data.data() + row * product.n);
    }
    multiply(product, call.data(0), call.data(1), y.data.data());
    return {};
}

Result<Outputs> row_linear_outputs(const Rule& r) {
    HK_TRY(r.rank(1, 3, "[E, out, in], or [E, in, out] with input_first"));
    if (r.shape(0).rank() < 2) return r.error("x is {}, expected [B, ..., in]", r.text(0));
    const bool input_first = r.node.integer("input_first") != 0;
    const int64_t in = r.shape(1)[input_first ? 1 : 2], out = r.shape(1)[input_first ? 2 : 1];
    if (r.shape(0)[-1] != in)
        return r.error("{} x {} ([{}]): inner dimensions {} and {} differ", r.text(0), r.text(1),
                       input_first ? "E, in, out" : "E, out, in", r.shape(0)[-1], in);
    HK_TRY(r.expect(2, Shape{r.shape(0)[0]}));
    Shape y = r.shape(0);
    y[-1] = out;
    return one(joined(r.kind(0), r.kind(1)), y);
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

// Returns the matrix that a row chooses, or -1.
Result<int64_t> chosen_matrix(const Tensor& choice, int64_t row, int64_t matrices) {
    const double which = choice.data[at(row)];
    if (which >= -1 && which < static_cast<double>(matrices)) return static_cast<int64_t>(which);
    return invalid_argument(fmt::format("row {} uses matrix {}, expected -1 (none) to {}", row, which, matrices - 1));
}

Status run_row_linear(const Call& call) {
    const Tensor& x = call.in(0);
    const Tensor& choice = call.in(2);
    Tensor& y = call.out();
    const int64_t rows = x.shape[0], matrices = call.in(1).shape[0];
    Product product;
    product.k = x.shape[-1];
    product.n = y.shape[-1];
    product.m = 1;
    for (int axis = 1; axis + 1 < x.shape.rank(); ++axis) product.m *= x.shape[axis];
    product.transpose_b = call.node.integer("input_first") == 0;
    for (int64_t row = 0; row < rows; ++row) {
        HK_ASSIGN(const int64_t matrix, chosen_matrix(choice, row, matrices));
        if (matrix < 0) continue; // y is zeros
        multiply(product, call.data(0) + row * product.m * product.k, call.data(1) + matrix * product.k * product.n,
                 y.data.data() + row * product.m * product.n);
    }
    return {};
}

Result<Outputs> row_linear_gradient_outputs(const Rule& r) {
    HK_TRY(r.rank(0, 2, "[B, out]"));
    HK_TRY(r.rank(1, 2, "[B, in]"));
    const int64_t rows = r.shape(0)[0], out = r.shape(0)[1], in = r.shape(1)[1];
    HK_TRY(r.expect(1, Shape{rows, in}));
    HK_TRY(r.expect(2, Shape{rows}));
    const int64_t matrices = r.node.integer("matrices");
    const Shape weights = r.node.integer("input_first") != 0 ? Shape{matrices, in, out} : Shape{matrices, out, in};
    HK_TRY(sizes_ok(r, weights.dims()));
    return one(Kind::float32, weights);
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

Status run_row_linear_gradient(const Call& call) {
    Tensor& y = call.out();
    const bool input_first = call.node.integer("input_first") != 0;
    const std::size_t first = input_first ? 1 : 0; // of dy and x: the one along the rows of a matrix
    const int64_t height = call.in(first).shape[1], width = call.in(1 - first).shape[1];
    for (int64_t row = 0; row < call.in(0).shape[0]; ++row) {
        HK_ASSIGN(const int64_t matrix, chosen_matrix(call.in(2), row, y.shape[0]));
        if (matrix < 0) continue;
        const double *a = call.data(first) + row * height, *b = call.data(1 - first) + row * width;
        double* to = y.data.data() + matrix * height * width;
        for (int64_t i = 0; i < height; ++i)
            for (int64_t j = 0; j < width; ++j) to[i * width + j] += a[i] * b[j];
    }
    return {};
}

} // namespace

const OperationRules matmul_rules{matmul_outputs, matmul_gradient, run_matmul};
const OperationRules linear_rules{linear_outputs, linear_gradient, run_linear};
const OperationRules row_linear_rules{row_linear_outputs, row_linear_gradient, run_row_linear};
const OperationRules row_linear_gradient_rules{row_linear_gradient_outputs, row_linear_gradient_gradient,
                                               run_row_linear_gradient};

} // namespace hekla::graph
