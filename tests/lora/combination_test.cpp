// Combining LoRA matrices: every type on numbers that can be followed by hand.
#include "lora/combination.hpp"

#include <cmath>
#include <doctest/doctest.h>

namespace combination_test {

using namespace hekla::lora;
using hekla::RandomStream;

namespace {

Matrix matrix(int64_t rows, int64_t columns, std::vector<double> data) {
    Matrix made(rows, columns);
    REQUIRE(made.data.size() == data.size());
    made.data = std::move(data);
    return made;
}

CombinationOptions options_of(std::string_view name, double density = 1.0, int64_t rank = 1) {
    const std::optional<Combination> how = combination_named(name);
    REQUIRE(how.has_value());
    return {*how, MajoritySign::total, density, rank};
}

LowRank combined_by(const std::vector<Term>& terms, const CombinationOptions& options) {
    RandomStream random(1, 0);
    auto made = combine(terms, options, random);
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

Matrix random_matrix(int64_t rows, int64_t columns, RandomStream& random) {
    Matrix made(rows, columns);
    for (double& x : made.data) x = random.next_normal();
    return made;
}

void check_near(const Matrix& a, const std::vector<double>& expected, double error = 1e-12) {
    REQUIRE(a.data.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(a.data[i] - expected[i]) < error);
}

// B = [1; 0], A = [2, -3, 0.5, 1], and B = [0; 2], A = [-1, -1, 4, 0].
std::vector<Term> two() {
    return {{{matrix(2, 1, {1, 0}), matrix(1, 4, {2, -3, 0.5, 1})}, 2.0, 0.5},
            {{matrix(2, 1, {0, 2}), matrix(1, 4, {-1, -1, 4, 0})}, 1.0, 4.0}};
}

} // namespace

TEST_CASE("cat and svd are the weighted sum, with the scale applied once") {
    const std::vector<double> sum{2, -3, 0.5, 1, -8, -8, 32, 0};
    const LowRank cat = combined_by(two(), options_of("cat"));
    CHECK(cat.rank() == 2);
    check_near(product(cat), sum);
    check_near(product(combined_by(two(), options_of("svd", 1.0, 2))), sum);
    // The nearest matrix of rank 1 has the larger singular value.
    const LowRank nearest = combined_by(two(), options_of("svd", 1.0, 1));
    CHECK(nearest.rank() == 1);
    CHECK(norm(nearest) < norm(cat));
    CHECK(norm(nearest) > 33.0);
}

TEST_CASE("linear sums A and B by the square roots of the weights, with the sign at A") {
    const LowRank sum = combined_by(two(), options_of("linear")); // square roots 1 and 2
    check_near(sum.a, {0, -5, 8.5, 1});
    check_near(sum.b, {1, 4});
    std::vector<Term> terms = two();
    terms[1].weight = -4.0;
    const LowRank difference = combined_by(terms, options_of("linear"));
    check_near(difference.a, {4, -1, -7.5, 1});
    check_near(difference.b, {1, 4});
}

TEST_CASE("magnitude_prune keeps the largest, ties those of the majority's sign") {
    // A keeps two of four: [2, -3, 0, 0] and [-1, 0, 4, 0] (of equal ones the first); B one of two.
    const LowRank pruned = combined_by(two(), options_of("magnitude_prune", 0.5));
    check_near(pruned.a, {0, -3, 8, 0});
    check_near(pruned.b, {1, 4});
    const LowRank elected = combined_by(two(), options_of("ties", 0.5)); // the sum of the first is 1: positive
    check_near(elected.a, {2, -3, 8, 0});
    check_near(elected.b, {1, 4});
    // By frequency the first has one of each sign, which counts as positive, too.
    CombinationOptions frequency = options_of("ties", 1.0);
    frequency.majority = MajoritySign::frequency;
    check_near(combined_by(two(), frequency).a, {2, (-3 - 2) / 2.0, (0.5 + 8) / 2.0, 1});
    std::vector<Term> terms = two();
    terms[1].factors.a.data[0] = -3;
    check_near(combined_by(terms, options_of("ties", 1.0)).a, {-6, -2.5, 4.25, 1}); // the sum is -1: negative
    check_near(combined_by(terms, frequency).a, {2, -2.5, 4.25, 1});
}

TEST_CASE("dare keeps elements at random, divided by the density, with the right expectation") {
    RandomStream fill(7, 0);
    std::vector<Term> terms;
    for (const double weight : {0.5, 2.0})
        terms.push_back({{random_matrix(50, 4, fill), random_matrix(4, 60, fill)}, 1.0, weight});
    const LowRank linear = combined_by(terms, options_of("linear"));
    const int runs = 2000;
    Matrix mean(4, 60);
    RandomStream random(3, 0);
    for (int run = 0; run < runs; ++run) {
        const auto made = combine(terms, options_of("dare_linear", 0.4), random);
        REQUIRE(made.ok());
        for (std::size_t i = 0; i < mean.data.size(); ++i) mean.data[i] += made->a.data[i] / runs;
    }
    double error = 0.0, size = 0.0;
    for (std::size_t i = 0; i < mean.data.size(); ++i) {
        error += std::pow(mean.data[i] - linear.a.data[i], 2);
        size += std::pow(linear.a.data[i], 2);
    }
    CHECK(std::sqrt(error / size) < 0.05); // expected: sqrt((1 - 0.4) / 0.4 / 2000) = 0.027
    // Of one element: 0, or the value divided by the density, and each adapter has a mask of its own.
    const LowRank one = combined_by({terms[0]}, options_of("dare_linear", 0.4));
    int kept = 0;
    for (std::size_t i = 0; i < one.a.data.size(); ++i) {
        const double whole = terms[0].factors.a.data[i] * std::sqrt(0.5) / 0.4;
        if (one.a.data[i] == 0.0) continue;
        ++kept;
        CHECK(std::abs(one.a.data[i] - whole) < 1e-12);
    }
    CHECK(kept > 60);
    CHECK(kept < 135); // of 240
    const LowRank signs = combined_by(terms, options_of("dare_ties", 1.0));
    check_near(signs.a, combined_by(terms, options_of("ties", 1.0)).a.data);
}

TEST_CASE("the types with _svd combine the changes of the weight") {
    RandomStream fill(9, 0);
    std::vector<Term> terms;
    for (const auto& [scale, weight] : {std::pair{2.0, 1.0}, {0.5, -1.0}})
        terms.push_back({{random_matrix(6, 2, fill), random_matrix(2, 5, fill)}, scale, weight});
    const Matrix sum = product(combined_by(terms, options_of("cat")));
    for (const char* name : {"svd", "magnitude_prune_svd", "dare_linear_svd"})
        check_near(product(combined_by(terms, options_of(name, 1.0, 5))), sum.data, 1e-11);
    const Matrix pruned = product(combined_by(terms, options_of("magnitude_prune_svd", 0.2, 5)));
    std::size_t zeros = 0;
    for (const double x : pruned.data) zeros += std::abs(x) < 1e-12 ? 1 : 0;
    CHECK(zeros >= 30 - 12); // 6 of 30 of each are kept
}

TEST_CASE("matrices that do not fit together are refused") {
    std::vector<Term> terms = two();
    terms[1].factors = {matrix(2, 2, {0, 0, 2, 0}), matrix(2, 4, {-1, -1, 4, 0, 0, 0, 0, 0})};
    RandomStream random(1, 0);
    const auto linear = combine(terms, options_of("linear"), random);
    CHECK(linear.code() == hekla::Code::invalid_argument);
    CHECK(linear.message().find("expected equal sizes and ranks") != std::string::npos);
    CHECK(combined_by(terms, options_of("cat")).rank() == 3);
    check_near(product(combined_by(terms, options_of("svd", 1.0, 3))), {2, -3, 0.5, 1, -8, -8, 32, 0});
    terms[1].factors.b = matrix(3, 2, {0, 0, 2, 0, 0, 0});
    CHECK(combine(terms, options_of("cat"), random).code() == hekla::Code::invalid_argument);
    CHECK(combine({}, options_of("cat"), random).code() == hekla::Code::invalid_argument);
    CHECK_FALSE(combination_named("sum").has_value());
}

} // namespace combination_test
