// The interpreter's matrix products.
#include "graph/reference/call.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph::reference {

namespace {

constexpr int64_t kRows = 4; // of a tile of c, whose sums stay in registers
constexpr int64_t kColumns = 4;
constexpr int64_t kDepth = 256; // of k at a time: a panel of a and one of b fit in the L1 cache

// Packs `count` rows of a matrix into panels of `width` rows, each panel [depth, width]; the last is padded with zeros.
void pack(const double* from, int64_t row_step, int64_t depth_step, int64_t count, int64_t depth, int64_t width,
          double* to) {
    for (int64_t first = 0; first < count; first += width)
        for (int64_t p = 0; p < depth; ++p)
            for (int64_t r = 0; r < width; ++r)
                *to++ = first + r < count ? from[(first + r) * row_step + p * depth_step] : 0.0;
}

void tile(const double* a, const double* b, int64_t depth, double (&sums)[kRows][kColumns]) {
    for (int64_t p = 0; p < depth; ++p, a += kRows, b += kColumns)
        for (int64_t r = 0; r < kRows; ++r)
            for (int64_t s = 0; s < kColumns; ++s) sums[r][s] += a[r] * b[s];
}

int64_t rounded_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

} // namespace

void multiply(const Product& product, const double* a, const double* b, double* c) {
    const auto [m, k, n, transpose_a, transpose_b, accumulate] = product;
    if (!accumulate) std::fill_n(c, m * n, 0.0);
    if (m == 0 || n == 0) return;
    const int64_t depth_room = std::min(k, kDepth);
    std::vector<double> left(at(rounded_up(m, kRows) * depth_room));
    std::vector<double> right(at(rounded_up(n, kColumns) * depth_room));
    const int64_t a_row = transpose_a ? 1 : k, a_depth = transpose_a ? m : 1;
    const int64_t b_column = transpose_b ? k : 1, b_depth = transpose_b ? 1 : n;
    for (int64_t first = 0; first < k; first += kDepth) {
        const int64_t depth = std::min(kDepth, k - first);
        pack(a + first * a_depth, a_row, a_depth, m, depth, kRows, left.data());
        pack(b + first * b_depth, b_column, b_depth, n, depth, kColumns, right.data());
        for (int64_t i = 0; i < m; i += kRows) {
            for (int64_t j = 0; j < n; j += kColumns) {
                double sums[kRows][kColumns] = {};
                tile(left.data() + i * depth, right.data() + j * depth, depth, sums);
                for (int64_t r = 0; r < std::min(kRows, m - i); ++r)
                    for (int64_t s = 0; s < std::min(kColumns, n - j); ++s) c[(i + r) * n + j + s] += sums[r][s];
            }
        }
    }
}

namespace {

void matmul(const Call& call) {
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
}

void linear(const Call& call) {
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
}

// Returns the matrix that a row chooses, or -1.
Result<int64_t> chosen_matrix(const Tensor& choice, int64_t row, int64_t matrices) {
    const double which = choice.data[at(row)];
    if (which >= -1 && which < static_cast<double>(matrices)) return static_cast<int64_t>(which);
    return invalid_argument(fmt::format("row {} uses matrix {}, expected -1 (none) to {}", row, which, matrices - 1));
}

Status row_linear_gradient(const Call& call) {
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

Status row_linear(const Call& call) {
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

} // namespace

Status run_matrix(const Call& call) {
    if (call.node.op == Op::row_linear) return row_linear(call);
    if (call.node.op == Op::row_linear_gradient) return row_linear_gradient(call);
    call.node.op == Op::matmul ? matmul(call) : linear(call);
    return {};
}

} // namespace hekla::graph::reference
