// Products of two small matrices, and their singular value decompositions, in float64.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hekla::lora {

struct Matrix {
    int64_t rows = 0, columns = 0;
    std::vector<double> data; // row-major

    Matrix() = default;
    Matrix(int64_t height, int64_t width)
        : rows(height), columns(width), data(static_cast<std::size_t>(height) * static_cast<std::size_t>(width)) {}
    double& at(int64_t row, int64_t column) { return data[index(row, column)]; }
    double at(int64_t row, int64_t column) const { return data[index(row, column)]; }

private:
    std::size_t index(int64_t row, int64_t column) const { return static_cast<std::size_t>(row * columns + column); }
};

Matrix transposed(const Matrix& matrix);

// The matrix B A [out, in], from B [out, r] and A [r, in].
struct LowRank {
    Matrix b, a;
    int64_t rank() const { return a.rows; }
};

Matrix product(const LowRank& factors);
// Returns the Frobenius norm of B A, from the r x r matrices B^T B and A A^T.
double norm(const LowRank& factors);

// U [m, k], S [k], descending, and V^T [k, n], with k at most min(m, n).
struct Decomposition {
    Matrix u, vt;
    std::vector<double> values;
};

// Errors: out_of_memory; corrupt, numbers that are not finite or too large.
Result<Decomposition> decompose(const Matrix& matrix);
// Decomposes B A without computing it: k is at most r. Costs a QR decomposition of B and of A^T, and an r x r SVD.
Result<Decomposition> decompose(const LowRank& factors);

// Returns the nearest matrix of at most this rank, as B = U S and A = V^T. A rank above the number of singular values
// is filled with zeros, so that the result has exactly this rank as its shape.
LowRank truncated(const Decomposition& decomposition, int64_t rank);

// Returns which part of the squared norm the largest `rank` singular values have, from 0 to 1; 1 for a zero matrix.
double energy(std::span<const double> values, int64_t rank);
// Returns the smallest rank, from 1 to `most`, whose energy is at least `wanted`; `most` if none has.
int64_t rank_for(std::span<const double> values, double wanted, int64_t most);

} // namespace hekla::lora
