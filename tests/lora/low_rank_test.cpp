// Singular value decompositions of matrices and of products of small matrices.
#include "lora/low_rank.hpp"

#include "base/philox.hpp"

#include <cmath>
#include <doctest/doctest.h>

namespace low_rank_test {

using namespace hekla::lora;

namespace {

Matrix random_matrix(int64_t rows, int64_t columns, uint64_t seed) {
    hekla::RandomStream random(seed, 0);
    Matrix matrix(rows, columns);
    for (double& x : matrix.data) x = random.next_normal();
    return matrix;
}

double largest_difference(const Matrix& a, const Matrix& b) {
    REQUIRE(a.rows == b.rows);
    REQUIRE(a.columns == b.columns);
    double largest = 0.0;
    for (std::size_t i = 0; i < a.data.size(); ++i) largest = std::max(largest, std::abs(a.data[i] - b.data[i]));
    return largest;
}

double norm_of(const Matrix& matrix) {
    double sum = 0.0;
    for (const double x : matrix.data) sum += x * x;
    return std::sqrt(sum);
}

} // namespace

TEST_CASE("the decomposition of a product equals that of the whole matrix") {
    for (const auto& [out, rank, in] : {std::tuple{24, 4, 16}, {5, 8, 30}, {40, 8, 5}, {6, 6, 6}, {1, 3, 7}}) {
        CAPTURE(out);
        const LowRank factors{random_matrix(out, rank, 1), random_matrix(rank, in, 2)};
        const Matrix whole = product(factors);
        CHECK(std::abs(norm(factors) - norm_of(whole)) < 1e-12 * norm_of(whole));
        const auto exact = decompose(whole), cheap = decompose(factors);
        REQUIRE(exact.ok());
        REQUIRE(cheap.ok());
        const auto most = static_cast<std::size_t>(std::min({out, rank, in}));
        REQUIRE(cheap->values.size() >= most);
        for (std::size_t k = 0; k < most; ++k)
            CHECK(std::abs(cheap->values[k] - exact->values[k]) < 1e-12 * exact->values[0]);
        for (int64_t keep = 1; keep <= 8; ++keep) {
            const LowRank one = truncated(exact.value(), keep), two = truncated(cheap.value(), keep);
            CHECK(one.rank() == keep); // filled with zeros above the rank of the matrix
            CHECK(largest_difference(product(one), product(two)) < 1e-11);
        }
        CHECK(largest_difference(product(truncated(cheap.value(), rank)), whole) < 1e-12 * norm_of(whole));
    }
}

TEST_CASE("a truncated decomposition is the nearest matrix: its error is the norm of the values left out") {
    const Matrix whole = random_matrix(12, 9, 3);
    const auto exact = decompose(whole);
    REQUIRE(exact.ok());
    REQUIRE(exact->values.size() == 9);
    for (int64_t rank = 1; rank <= 9; ++rank) {
        Matrix rest = product(truncated(exact.value(), rank));
        for (std::size_t i = 0; i < rest.data.size(); ++i) rest.data[i] -= whole.data[i];
        const double missing = norm_of(rest) / norm_of(whole);
        CHECK(std::abs(energy(exact->values, rank) - (1.0 - missing * missing)) < 1e-12);
    }
    CHECK(largest_difference(transposed(transposed(whole)), whole) == 0.0);
}

TEST_CASE("ranks for an energy") {
    const std::vector<double> values{4.0, 2.0, 2.0, 1.0}; // squares 16, 4, 4, 1 of 25
    CHECK(energy(values, 1) == 16.0 / 25.0);
    CHECK(rank_for(values, 0.64, 4) == 1);
    CHECK(rank_for(values, 0.65, 4) == 2);
    CHECK(rank_for(values, 0.96, 4) == 3);
    CHECK(rank_for(values, 1.0, 4) == 4);
    CHECK(rank_for(values, 1.0, 2) == 2); // `most`, though its energy is less
    const std::vector<double> zeros{0.0, 0.0};
    CHECK(energy(zeros, 0) == 1.0);
    CHECK(rank_for(zeros, 0.9, 2) == 1);
}

TEST_CASE("a matrix that is not finite has no decomposition") {
    Matrix matrix = random_matrix(3, 3, 4);
    matrix.data[4] = std::nan("");
    CHECK(decompose(matrix).code() == hekla::Code::corrupt);
}

} // namespace low_rank_test
