// The interpreter's pointwise operations and random numbers.
#include "base/philox.hpp"
#include "support.hpp"

#include <limits>

namespace hekla::test::reference_pointwise_test {

namespace {

Tensor row(std::vector<double> data) {
    const Shape shape{static_cast<int64_t>(data.size())};
    return floats(shape, std::move(data));
}
Tensor int_row(std::vector<double> data) {
    const Shape shape{static_cast<int64_t>(data.size())};
    return ints(shape, std::move(data));
}
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLowest = std::numeric_limits<int32_t>::min();
constexpr double kHighest = std::numeric_limits<int32_t>::max();

} // namespace

TEST_CASE("arithmetic broadcasts by NumPy's rules") {
    const Tensor a = floats({2, 1, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor b = floats({2, 1}, {10, 20});
    check_tensor(run1(Op::add, {a, b}), {2, 2, 3}, {11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26});
    check_tensor(run1(Op::sub, {b, a}), {2, 2, 3}, {9, 8, 7, 19, 18, 17, 6, 5, 4, 16, 15, 14});
    check_tensor(run1(Op::mul, {a, floats({}, {2})}), {2, 1, 3}, {2, 4, 6, 8, 10, 12});
    check_tensor(run1(Op::div, {floats({}, {12}), a}), {2, 1, 3}, {12, 6, 4, 3, 2.4, 2});
    check_tensor(run1(Op::pow, {row({2, 9, 0}), row({3, 0.5, 0})}), {3}, {8, 3, 1});
    check_tensor(run1(Op::add, {floats({0, 3}, {}), row({1, 2, 3})}), {0, 3}, {});
    const auto refused = try_run(Op::add, {floats({2}, {1, 2}), floats({3}, {1, 2, 3})});
    CHECK(!refused.ok());
}

TEST_CASE("broadcasting agrees with the definition at every rank") {
    const Shape full{2, 3, 2, 5};
    const Tensor a = wave(full, 0.1);
    for (int mask = 0; mask < 16; ++mask) {
        Shape shape = full;
        for (int axis = 0; axis < 4; ++axis)
            if ((mask >> axis & 1) != 0) shape[axis] = 1;
        const Tensor b = wave(shape, 0.2);
        const Tensor y = run1(Op::sub, {a, b});
        const auto strides = shape.strides();
        std::vector<double> expected;
        std::size_t i = 0;
        for (int64_t p = 0; p < 2; ++p)
            for (int64_t q = 0; q < 3; ++q)
                for (int64_t r = 0; r < 2; ++r)
                    for (int64_t s = 0; s < 5; ++s, ++i) {
                        const int64_t index[] = {p, q, r, s};
                        int64_t place = 0;
                        for (int axis = 0; axis < 4; ++axis)
                            if (shape[axis] != 1) place += index[axis] * strides[axis];
                        expected.push_back(a.data[i] - b.data[static_cast<std::size_t>(place)]);
                    }
        check_tensor(y, full, expected, 0);
    }
}

TEST_CASE("integers wrap at 32 bits and division rounds toward zero") {
    check_tensor(run1(Op::add, {int_row({kHighest, -5}), int_row({1, 3})}), {2}, {kLowest, -2}, 0);
    check_tensor(run1(Op::sub, {int_row({kLowest}), int_row({1})}), {1}, {kHighest}, 0);
    check_tensor(run1(Op::mul, {int_row({65537, -7}), int_row({65537, 6})}), {2}, {131073, -42}, 0);
    check_tensor(run1(Op::div, {int_row({7, -7, 7, -7}), int_row({2, 2, -2, -2})}), {4}, {3, -3, -3, 3}, 0);
    check_tensor(run1(Op::neg, {int_row({3, kLowest})}), {2}, {-3, kLowest}, 0);
    check_tensor(run1(Op::abs, {int_row({-3, 3})}), {2}, {3, 3}, 0);
    const auto by_zero = try_run(Op::div, {int_row({1}), int_row({0})});
    CHECK(by_zero.code() == Code::invalid_argument);
}

TEST_CASE("minimum, maximum and NaN") {
    check_values(run1(Op::minimum, {row({1, 5, kNan, 1}), row({2, 3, 1, kNan})}), {1, 3, kNan, kNan});
    check_values(run1(Op::maximum, {row({1, 5, kNan, 1}), row({2, 3, 1, kNan})}), {2, 5, kNan, kNan});
    check_values(run1(Op::relu, {row({-1, 0, 2, kNan})}), {0, 0, 2, kNan});
    check_values(run1(Op::clamp, {row({-9, 0.5, 9, kNan})}, {{"low", -1.0}, {"high", 1.0}}), {-1, 0.5, 1, kNan});
    check_values(run1(Op::clamp, {int_row({-9, 0, 9})}, {{"low", -1.5}, {"high", 1.5}}), {-1, 0, 1});
}

TEST_CASE("compare returns int32 for each relation") {
    const Tensor a = row({1, 2, 3, kNan}), b = row({2, 2, 2, kNan});
    const std::vector<std::vector<double>> expected = {{0, 1, 0, 0}, {1, 0, 1, 1}, {1, 0, 0, 0},
                                                       {1, 1, 0, 0}, {0, 0, 1, 0}, {0, 1, 1, 0}};
    for (int64_t relation = 0; relation < 6; ++relation) {
        const Tensor y = run1(Op::compare, {a, b}, {{"relation", relation}});
        CHECK(y.kind == Kind::int32);
        check_values(y, expected[static_cast<std::size_t>(relation)], 0);
    }
}

TEST_CASE("where broadcasts all three") {
    check_tensor(run1(Op::where, {ints({2, 1}, {1, 0}), row({1, 2, 3}), floats({}, {-1})}), {2, 3},
                 {1, 2, 3, -1, -1, -1});
    check_tensor(run1(Op::where, {ints({2}, {0, -7}), int_row({1, 2}), int_row({3, 4})}), {2}, {3, 2});
}

TEST_CASE("functions of one value agree with PyTorch's float64") {
    const Tensor x = row({-30, -3, -0.5, 0, 0.25, 2, 40});
    check_values(run1(Op::gelu, {x}),
                 {-0.0, -0.00404969409489031, -0.154268769362993, 0, 0.149676581420731, 1.95449973610364, 40});
    check_values(run1(Op::gelu, {x}, {{"tanh_approximation", int64_t{1}}}),
                 {-0.0, -0.00363739208177299, -0.154285990174856, 0, 0.149675350701685, 1.95459769408777, 40});
    check_values(run1(Op::silu, {x}), {-2.80728689065179e-12, -0.1422776195327, -0.188770334399073, 0, 0.14054412522145,
                                       1.76159415595576, 40});
    check_values(run1(Op::log_sigmoid, {x}),
                 {-30.0000000000001, -3.04858735157374, -0.974076984180107, -0.693147180559945, -0.575939419878844,
                  -0.126928011042972, -4.24835425529159e-18});
    check_values(run1(Op::softplus, {x}), {9.35762296883974e-14, 0.0485873515737421, 0.474076984180107,
                                           0.693147180559945, 0.825939419878844, 2.12692801104297, 40});
    check_values(run1(Op::erf, {x}),
                 {-1, -0.999977909503001, -0.520499877813047, 0, 0.276326390168237, 0.995322265018953, 1});
    check_values(run1(Op::tanh, {x}),
                 {-1, -0.99505475368673, -0.46211715726001, 0, 0.244918662403709, 0.964027580075817, 1});
    check_values(run1(Op::sigmoid, {x}), {9.3576229688393e-14, 0.0474258731775668, 0.377540668798145, 0.5,
                                          0.562176500885798, 0.880797077977882, 1});
    const Tensor wide = row({-1000, 1000});
    check_values(run1(Op::softplus, {wide}), {0, 1000});
    check_values(run1(Op::log_sigmoid, {wide}), {-1000, 0});
    check_values(run1(Op::sigmoid, {wide}), {0, 1});
    check_values(run1(Op::silu, {wide}), {0, 1000});
}

TEST_CASE("plain functions of one value") {
    const Tensor x = row({0.25, 1, 4});
    check_values(run1(Op::sqrt, {x}), {0.5, 1, 2});
    check_values(run1(Op::rsqrt, {x}), {2, 1, 0.5});
    check_values(run1(Op::log, {x}), {-1.3862943611198906, 0, 1.3862943611198906});
    check_values(run1(Op::exp, {row({0, 1, -INFINITY})}), {1, 2.718281828459045, 0});
    check_values(run1(Op::log1p, {row({0, 1e-20, 3})}), {0, 1e-20, 1.3862943611198906}, 1e-15);
    CHECK(run1(Op::log1p, {row({1e-20})}).data[0] > 0);
    check_values(run1(Op::sin, {row({0, 1})}), {0, 0.8414709848078965});
    check_values(run1(Op::cos, {row({0, 1})}), {1, 0.5403023058681398});
    check_values(run1(Op::neg, {row({1, -2})}), {-1, 2});
    check_values(run1(Op::abs, {row({1, -2, 0})}), {1, 2, 0});
    check_values(run1(Op::sign, {row({3, -2, 0})}), {1, -1, 0});
    check_values(run1(Op::floor, {row({1.5, -1.5, 2})}), {1, -2, 2});
    check_values(run1(Op::round, {row({0.5, 1.5, 2.5, -0.5, -1.5, 2.4})}), {0, 2, 2, 0, -2, 2});
    check_values(run1(Op::stop_gradient, {x}), x.data);
}

TEST_CASE("cast rounds toward zero and saturates at int32") {
    const Tensor y = run1(Op::cast, {row({1.9, -1.9, 1e20, -1e20, kNan})}, {{"kind", int64_t{2}}});
    CHECK(y.kind == Kind::int32);
    check_values(y, {1, -1, kHighest, kLowest, 0}, 0);
    const Tensor back = run1(Op::cast, {int_row({3, -4})}, {{"kind", int64_t{1}}});
    CHECK(back.kind == Kind::float32);
    check_values(back, {3, -4}, 0);
}

TEST_CASE("dropout depends only on seed, step, stream and example") {
    const Shape shape{6, 3, 5};
    const Tensor ones = floats(shape, std::vector<double>(90, 1.0));
    const std::vector<NamedAttribute> attributes = {{"probability", 0.3}, {"stream", int64_t{77}}};
    Feeds feeds;
    feeds.seed = 0x123456789abcdef0;
    feeds.step = 9;
    const Tensor y = run1(Op::dropout, {ones}, attributes, feeds);
    for (std::size_t i = 0; i < 90; ++i) { // a second implementation of the definition in reference.hpp
        const auto e = static_cast<uint32_t>(i % 15), b = static_cast<uint32_t>(i / 15);
        const uint32_t word = philox({e / 4, b, 9, 77}, {0x9abcdef0, 0x12345678})[e % 4];
        CHECK(y.data[i] == (word >= 0.3 * 4294967296.0 ? 1 / 0.7 : 0.0));
    }
    // Examples 4 and 5 of the step are the same in their own micro-batch.
    Feeds later = feeds;
    later.first_example = 4;
    const Tensor part = run1(Op::dropout, {floats({2, 3, 5}, std::vector<double>(30, 1.0))}, attributes, later);
    CHECK(std::equal(part.data.begin(), part.data.end(), y.data.begin() + 60));
    Feeds other = feeds;
    other.step = 10;
    CHECK(run1(Op::dropout, {ones}, attributes, other).data != y.data);
    other = feeds;
    other.seed ^= uint64_t{1} << 40;
    CHECK(run1(Op::dropout, {ones}, attributes, other).data != y.data);
    CHECK(run1(Op::dropout, {ones}, {{"probability", 0.3}, {"stream", int64_t{78}}}, feeds).data != y.data);
    CHECK(run1(Op::dropout, {ones}, {{"probability", 0.0}, {"stream", int64_t{77}}}, feeds).data == ones.data);
    // A dropped value is 0, whatever it was.
    const Tensor infinite = run1(Op::dropout, {floats(shape, std::vector<double>(90, INFINITY))}, attributes, feeds);
    CHECK(std::ranges::none_of(infinite.data, [](double x) { return std::isnan(x); }));
}

TEST_CASE("dropout keeps its share and the mean") {
    const Tensor y = run1(Op::dropout, {floats({50, 400}, std::vector<double>(20000, 1.0))},
                          {{"probability", 0.25}, {"stream", int64_t{5}}});
    double mean = 0, kept = 0;
    for (const double x : y.data) mean += x / 20000, kept += (x != 0 ? 1.0 : 0.0) / 20000;
    CHECK(std::abs(kept - 0.75) < 0.02);
    CHECK(std::abs(mean - 1) < 0.03);
}

TEST_CASE("random numbers have their distributions and depend on their keys") {
    const std::vector<NamedAttribute> attributes = {{"shape", std::vector<int64_t>{100, 201}}, {"stream", int64_t{3}}};
    const Tensor uniform = run1(Op::random_uniform, {}, attributes);
    const Tensor normal = run1(Op::random_normal, {}, attributes);
    const double count = 20100;
    double mean = 0, square = 0, normal_mean = 0, normal_square = 0, neighbors = 0;
    for (std::size_t i = 0; i < uniform.data.size(); ++i) {
        CHECK_UNARY(uniform.data[i] >= 0 && uniform.data[i] < 1);
        mean += uniform.data[i] / count;
        square += uniform.data[i] * uniform.data[i] / count;
        normal_mean += normal.data[i] / count;
        normal_square += normal.data[i] * normal.data[i] / count;
        if (i > 0) neighbors += normal.data[i] * normal.data[i - 1] / count;
    }
    CHECK(std::abs(mean - 0.5) < 0.01);
    CHECK(std::abs(square - 1. / 3) < 0.01);
    CHECK(std::abs(normal_mean) < 0.03);
    CHECK(std::abs(normal_square - 1) < 0.05);
    CHECK(std::abs(neighbors) < 0.03);
    Feeds feeds;
    feeds.first_example = 99;
    const Tensor last =
        run1(Op::random_normal, {}, {{"shape", std::vector<int64_t>{1, 201}}, {"stream", int64_t{3}}}, feeds);
    CHECK(std::equal(last.data.begin(), last.data.end(), normal.data.end() - 201));
    // Element 2 of example 1: words 0 and 1 of block 1.
    const auto words = philox({1, 1, 0, 3}, {0, 0});
    const double u = (words[0] + 1.0) / 4294967296.0, v = words[1] / 4294967296.0;
    CHECK(normal.data[201 + 2] ==
          doctest::Approx(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v)).epsilon(1e-14));
    CHECK(uniform.data[201 + 6] == philox({1, 1, 0, 3}, {0, 0})[2] / 4294967296.0);
}

TEST_CASE("truncated_normal inverts the distribution function between its bounds") {
    const auto below = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
    constexpr double kPairs[][2] = {{-2, 2},        {-0.5, 3}, {-1e-3, 1e-3}, {-7, 7},
                                    {-INFINITY, 0}, {-9, -5},  {-1, INFINITY}};
    for (const auto& [low, high] : kPairs)
        for (const bool mirrored : {false, true}) {
            const double from = mirrored ? -high : low, to = mirrored ? -low : high;
            CAPTURE(from);
            CAPTURE(to);
            const Tensor y =
                run1(Op::truncated_normal, {},
                     {{"shape", std::vector<int64_t>{7, 301}}, {"low", from}, {"high", to}, {"stream", int64_t{3}}});
            for (int64_t i = 0; i < y.shape.elements(); ++i) {
                const auto element = static_cast<uint32_t>(i % 301);
                const uint32_t word = philox({element / 4, static_cast<uint32_t>(i / 301), 0, 3}, {0, 0})[element % 4];
                const double u = ((word >> 8) + 0.5) / 16777216.0, x = y.data[static_cast<std::size_t>(i)];
                CHECK_UNARY(x >= from && x <= to);
                // In the nearer tail, so that the comparison is relative.
                const double got = x <= 0 ? below(x) : below(-x), a = below(from), b = below(-to);
                const double inside = from > 0 ? below(-from) - b : below(to) - a;
                const double expected = x <= 0 ? a + u * inside : b + (1 - u) * inside;
                CHECK(std::abs(got - expected) <= 1e-13 * expected + 1e-15);
            }
        }
    // As torch.nn.init.trunc_normal_ of two deviations: mean 0 and variance 1 - 4 density(2) / P(-2, 2).
    const Tensor y =
        run1(Op::truncated_normal, {}, {{"shape", std::vector<int64_t>{100, 201}}, {"stream", int64_t{5}}});
    double mean = 0, square = 0;
    for (const double x : y.data) mean += x / 20100, square += x * x / 20100;
    CHECK(std::abs(mean) < 0.02);
    CHECK(std::abs(square - 0.7737413) < 0.02);
    const auto why = [](double low, double high) {
        return std::string(
            try_run(Op::truncated_normal, {}, {{"shape", std::vector<int64_t>{3}}, {"low", low}, {"high", high}})
                .message());
    };
    CHECK(why(1, 1).find("low is 1 and high is 1; expected low below high") != std::string::npos);
    CHECK(why(20, 30).find("choose bounds that are nearer to 0") != std::string::npos);
}

} // namespace hekla::test::reference_pointwise_test
