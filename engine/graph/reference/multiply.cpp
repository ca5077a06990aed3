#include "graph/reference/multiply.hpp"

#include "graph/reference/call.hpp"

#include <algorithm>
#include <vector>

namespace hekla::graph {
namespace {

constexpr int64_t kTileRows = 4; // of a tile of c, whose sums stay in registers
constexpr int64_t kTileColumns = 4;
constexpr int64_t kDepth = 256; // of k at a time: a panel of a and one of b fit in the L1 cache

// Packs `count` rows of a matrix into panels of `width` rows, each panel [depth, width]; the last is padded with zeros.
void pack(const double* from, int64_t row_step, int64_t depth_step, int64_t count, int64_t depth, int64_t width,
          double* to) {
    for (int64_t first = 0; first < count; first += width)
        for (int64_t p = 0; p < depth; ++p)
            for (int64_t r = 0; r < width; ++r)
                *to++ = first + r < count ? from[(first + r) * row_step + p * depth_step] : 0.0;
}

void tile(const double* a, const double* b, int64_t depth, double (&sums)[kTileRows][kTileColumns]) {
    for (int64_t p = 0; p < depth; ++p, a += kTileRows, b += kTileColumns)
        for (int64_t r = 0; r < kTileRows; ++r)
            for (int64_t s = 0; s < kTileColumns; ++s) sums[r][s] += a[r] * b[s];
}

int64_t rounded_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

} // namespace

void multiply(const Product& product, const double* a, const double* b, double* c) {
    const auto [m, k, n, transpose_a, transpose_b, accumulate] = product;
    if (!accumulate) std::fill_n(c, m * n, 0.0);
    if (m == 0 || n == 0) return;
    const int64_t depth_room = std::min(k, kDepth);
    std::vector<double> left(at(rounded_up(m, kTileRows) * depth_room));
    std::vector<double> right(at(rounded_up(n, kTileColumns) * depth_room));
    const int64_t a_row = transpose_a ? 1 : k, a_depth = transpose_a ? m : 1;
    const int64_t b_column = transpose_b ? k : 1, b_depth = transpose_b ? 1 : n;
    for (int64_t first = 0; first < k; first += kDepth) {
        const int64_t depth = std::min(kDepth, k - first);
        pack(a + first * a_depth, a_row, a_depth, m, depth, kTileRows, left.data());
        pack(b + first * b_depth, b_column, b_depth, n, depth, kTileColumns, right.data());
        for (int64_t i = 0; i < m; i += kTileRows) {
            for (int64_t j = 0; j < n; j += kTileColumns) {
                double sums[kTileRows][kTileColumns] = {};
                tile(left.data() + i * depth, right.data() + j * depth, depth, sums);
                for (int64_t r = 0; r < std::min(kTileRows, m - i); ++r)
                    for (int64_t s = 0; s < std::min(kTileColumns, n - j); ++s) c[(i + r) * n + j + s] += sums[r][s];
            }
        }
    }
}

} // namespace hekla::graph
