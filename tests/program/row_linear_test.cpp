// Products with a matrix of its own for every row: the device against the interpreter.
#include "program/kernel_case.hpp"

namespace row_linear_test {

using namespace hekla;
using namespace hekla::test;

namespace {

struct Sizes {
    int64_t rows, tokens, in, out, matrices;
};
// One token or many, few inputs or many, odd and even.
constexpr Sizes kSizes[] = {{1, 1, 1, 1, 1},    {3, 1, 8, 70, 2},   {5, 1, 67, 3, 4}, {4, 2, 128, 8, 3},
                            {2, 4, 300, 17, 7}, {7, 1, 12, 300, 5}, {3, 5, 9, 33, 2}, {6, 19, 64, 8, 4},
                            {2, 33, 8, 130, 3}, {40, 1, 33, 5, 3},  {97, 1, 3, 2, 1}, {301, 1, 68, 132, 5}};

// The rows' matrices: each one of them, some twice, and none.
ValueId choice_of(Builder& b, int64_t rows, int64_t matrices) {
    std::vector<double> choice;
    for (int64_t i = 0; i < rows; ++i)
        choice.push_back(i % 4 == 1 ? -1.0 : static_cast<double>((i * 5 + matrices - 1) % matrices));
    return b.constant(Kind::int32, {rows}, choice);
}

void check_all(Bench& bench) {
    for (const auto& [rows, tokens, in, out, matrices] : kSizes)
        for (const int64_t input_first : {0, 1}) {
            CAPTURE(rows);
            CAPTURE(tokens);
            CAPTURE(in);
            CAPTURE(out);
            CAPTURE(input_first);
            Builder b;
            const ValueId x = b.parameter("x", {rows, tokens, in}, 0, 0, 0, 0);
            const ValueId weights = b.parameter(
                "weights", input_first != 0 ? Shape{matrices, in, out} : Shape{matrices, out, in}, 0, 0, 0, 0);
            const ValueId scaled = b(Op::mul, {x, b.scalar(1.5)});
            const ValueId y =
                b(Op::row_linear, {scaled, weights, choice_of(b, rows, matrices)}, {{"input_first", input_first}});
            check_kernel(bench, with_gradients(std::move(b), y), 2e-6 + 1e-8 * static_cast<double>(in + tokens));
        }
}

} // namespace

TEST_CASE("row_linear, forward and gradients") {
    Bench bench;
    check_all(bench);
}

TEST_CASE("row_linear on GPUs") {
    GpuKernelsBench bench;
    check_all(bench);
}

TEST_CASE("row_linear of views, with four dimensions") {
    Bench bench;
    for (const int64_t tokens : {1, 6}) {
        CAPTURE(tokens);
        Builder b;
        const ValueId whole = b.parameter("x", {3, tokens, 2, 20}, 0, 0, 0, 0);
        const ValueId part =
            b(Op::slice, {whole}, {{"axis", int64_t{3}}, {"start", int64_t{3}}, {"length", int64_t{13}}});
        const ValueId weights = b.parameter("weights", {4, 13, 9}, 0, 0, 0, 0);
        const ValueId turned = b(Op::transpose, {weights}, {{"permutation", std::vector<int64_t>{0, 2, 1}}});
        const ValueId rows = b.input("rows", Kind::int32, {3});
        const ValueId y = b(Op::row_linear, {part, turned, rows});
        check_kernel(bench, with_gradients(std::move(b), y), 3e-6, {{"rows", 4}});
    }
}

TEST_CASE("a row's result does not depend on the other rows") {
    Bench bench;
    for (const int64_t tokens : {1, 7})
        for (const auto& [in, out] : {std::pair<int64_t, int64_t>{200, 8}, {8, 90}}) {
            CAPTURE(tokens);
            CAPTURE(in);
            Random random(3);
            const graph::Tensor x = random.tensor(Kind::float_, {4, tokens, in}),
                                weights = random.tensor(Kind::float_, {3, out, in});
            const auto run = [&](const std::vector<std::size_t>& rows, const std::vector<double>& choice) {
                Builder b;
                const auto count = static_cast<int64_t>(rows.size());
                graph::Tensor chosen{Kind::float_, {count, tokens, in}, {}};
                for (const std::size_t row : rows) {
                    const auto first = x.data.begin() + static_cast<int64_t>(row) * tokens * in;
                    chosen.data.insert(chosen.data.end(), first, first + tokens * in);
                }
                graph::Feeds feeds;
                feeds.fields["x"] = chosen;
                feeds.fields["rows"] = {Kind::int32, {count}, choice};
                feeds.parameters["weights"] = weights;
                b.output("y", b(Op::row_linear, {b.input("x", Kind::float_, chosen.shape),
                                                 b.parameter("weights", weights.shape, 0, 0, 0, 0),
                                                 b.input("rows", Kind::int32, {count})}));
                return run_on_device(*bench, finished(std::move(b)), feeds, {}).at("y").data;
            };
            const std::vector<double> all = run({0, 1, 2, 3}, {2, 0, -1, 0});
            const std::vector<double> moved = run({3, 2, 0, 1}, {0, -1, 2, 0}), alone = run({1}, {0});
            const auto row = [&](const std::vector<double>& from, std::int64_t i) {
                return std::vector<double>(from.begin() + i * tokens * out, from.begin() + (i + 1) * tokens * out);
            };
            CHECK(row(all, 0) == row(moved, 2));
            CHECK(row(all, 1) == row(moved, 3));
            CHECK(row(all, 3) == row(moved, 0));
            CHECK(row(all, 2) == std::vector<double>(static_cast<std::size_t>(tokens * out), 0.0));
            CHECK(row(all, 1) == alone);
        }
}

TEST_CASE("many rows: a row's result and the sums of a matrix's gradient do not depend on the rows of other matrices") {
    Bench bench;
    constexpr int64_t kRows = 150, kIn = 37, kOut = 20, kMatrices = 3;
    Random random(7);
    const graph::Tensor x = random.tensor(Kind::float_, {kRows, kIn}),
                        weights = random.tensor(Kind::float_, {kMatrices, kOut, kIn});
    std::vector<double> choice;
    for (int64_t i = 0; i < kRows; ++i) choice.push_back(i % 3 == 0 ? 1.0 : i % 5 == 0 ? -1.0 : 0.0); // none has 2
    const auto run = [&](const std::vector<double>& rows) {
        Builder b;
        const ValueId chosen = b.input("rows", Kind::int32, {kRows}), in = b.input("x", Kind::float_, x.shape);
        const ValueId matrices = b.parameter("weights", weights.shape, 0, 0, 0, 0);
        b.output("y", b(Op::row_linear, {in, matrices, chosen}));
        b.output("d", b(Op::row_linear_gradient, {b(Op::tanh, {b(Op::row_linear, {in, matrices, chosen})}), in, chosen},
                        {{"matrices", kMatrices}}));
        graph::Feeds feeds;
        feeds.fields["x"] = x;
        feeds.fields["rows"] = {Kind::int32, {kRows}, rows};
        feeds.parameters["weights"] = weights;
        return run_on_device(*bench, finished(std::move(b)), feeds, {});
    };
    std::vector<double> changed = choice;
    for (double& matrix : changed)
        if (matrix == 0.0) matrix = 2.0;
    const auto before = run(choice), after = run(changed);
    const auto slice = [](const graph::Tensor& from, int64_t i, int64_t size) {
        return std::vector<double>(from.data.begin() + i * size, from.data.begin() + (i + 1) * size);
    };
    for (int64_t i = 0; i < kRows; ++i)
        if (choice[static_cast<std::size_t>(i)] == 1.0)
            CHECK(slice(before.at("y"), i, kOut) == slice(after.at("y"), i, kOut));
    CHECK(slice(before.at("d"), 1, kOut * kIn) == slice(after.at("d"), 1, kOut * kIn));
    CHECK(slice(before.at("d"), 2, kOut * kIn) == std::vector<double>(kOut * kIn, 0.0));
    CHECK(slice(after.at("d"), 0, kOut * kIn) == std::vector<double>(kOut * kIn, 0.0));
}

} // namespace row_linear_test
