#include "lora/low_rank.hpp"

#include "base/within_memory.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace hekla::lora {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Dense = Eigen::MatrixXd;

Eigen::Map<const RowMajor> view_of(const Matrix& matrix) { return {matrix.data.data(), matrix.rows, matrix.columns}; }

template<class Values>
Matrix matrix_of(const Values& values) {
    Matrix matrix(values.rows(), values.cols());
    Eigen::Map<RowMajor>(matrix.data.data(), matrix.rows, matrix.columns) = values;
    return matrix;
}

// The thin QR decomposition.
struct Orthogonal {
    Dense q, r;
};

Orthogonal orthogonal_of(const Dense& matrix) {
    const Eigen::HouseholderQR<Dense> qr(matrix);
    const Eigen::Index size = std::min(matrix.rows(), matrix.cols());
    return {qr.householderQ() * Dense::Identity(matrix.rows(), size),
            qr.matrixQR().topRows(size).triangularView<Eigen::Upper>()};
}

Result<Decomposition> svd_of(const Dense& matrix) {
    const Eigen::BDCSVD<Dense> svd(matrix, Eigen::ComputeThinU | Eigen::ComputeThinV);
    if (svd.info() != Eigen::Success || !svd.matrixU().allFinite() || !svd.matrixV().allFinite() ||
        !svd.singularValues().allFinite())
        return corrupt("a matrix has no singular value decomposition; expected finite numbers below 1e150");
    Decomposition made{matrix_of(svd.matrixU()), matrix_of(svd.matrixV().transpose()), {}};
    made.values.assign(svd.singularValues().begin(), svd.singularValues().end());
    return made;
}

} // namespace

Matrix transposed(const Matrix& matrix) { return matrix_of(view_of(matrix).transpose()); }

Matrix product(const LowRank& factors) { return matrix_of(view_of(factors.b) * view_of(factors.a)); }

double norm(const LowRank& factors) {
    const Dense of_b = view_of(factors.b).transpose() * view_of(factors.b);
    const Dense of_a = view_of(factors.a) * view_of(factors.a).transpose();
    return std::sqrt(std::max(0.0, of_b.cwiseProduct(of_a).sum())); // both are symmetric
}

Result<Decomposition> decompose(const Matrix& matrix) {
    Decomposition made;
    HK_TRY(within_memory("for a singular value decomposition", [&]() -> Status {
        HK_ASSIGN(made, svd_of(view_of(matrix)));
        return {};
    }));
    return made;
}

Result<Decomposition> decompose(const LowRank& factors) {
    Decomposition made;
    HK_TRY(within_memory("for a singular value decomposition", [&]() -> Status {
        const Orthogonal b = orthogonal_of(view_of(factors.b)), a = orthogonal_of(view_of(factors.a).transpose());
        HK_ASSIGN(made, svd_of(b.r * a.r.transpose()));
        made.u = matrix_of(b.q * view_of(made.u));
        made.vt = matrix_of(view_of(made.vt) * a.q.transpose());
        return {};
    }));
    return made;
}

LowRank truncated(const Decomposition& decomposition, int64_t rank) {
    LowRank made{Matrix(decomposition.u.rows, rank), Matrix(rank, decomposition.vt.columns)};
    const int64_t kept = std::min(rank, static_cast<int64_t>(decomposition.values.size()));
    for (int64_t k = 0; k < kept; ++k) {
        const double value = decomposition.values[static_cast<std::size_t>(k)];
        for (int64_t row = 0; row < made.b.rows; ++row) made.b.at(row, k) = decomposition.u.at(row, k) * value;
        for (int64_t column = 0; column < made.a.columns; ++column)
            made.a.at(k, column) = decomposition.vt.at(k, column);
    }
    return made;
}

double energy(std::span<const double> values, int64_t rank) {
    double kept = 0.0, all = 0.0;
    for (std::size_t k = 0; k < values.size(); ++k) {
        const double square = values[k] * values[k];
        all += square;
        if (static_cast<int64_t>(k) < rank) kept += square;
    }
    return all > 0.0 ? kept / all : 1.0;
}

int64_t rank_for(std::span<const double> values, double wanted, int64_t most) {
    for (int64_t rank = 1; rank < most; ++rank)
        if (energy(values, rank) >= wanted) return rank;
    return std::max<int64_t>(most, 1);
}

} // namespace hekla::lora
