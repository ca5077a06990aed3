// matmul and linear at odd sizes, in every layout, strided, batched, split along K; on the device against the
// interpreter.
#include "program/kernel_case.hpp"

namespace matmul_test {

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr double kTolerance = 2e-6;

Graph product(const Shape& a, const Shape& b, bool ta, bool tb) {
    Builder builder;
    const ValueId y = builder(Op::matmul, {builder.input("a", Kind::float_, a), builder.input("b", Kind::float_, b)},
                              {{"transpose_a", int64_t{ta}}, {"transpose_b", int64_t{tb}}});
    builder.output("y", y);
    return finished(std::move(builder));
}

} // namespace

TEST_CASE("matmul: every layout at odd and even sizes") {
    Bench bench;
    const int64_t sizes[][3] = {{1, 1, 1},    {1, 7, 5},    {3, 2, 64},   {8, 16, 8},
                                {13, 17, 19}, {33, 65, 31}, {64, 96, 50}, {130, 34, 6}};
    for (const auto& [m, n, k] : sizes)
        for (int layout = 0; layout < 4; ++layout) {
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            CAPTURE(layout);
            const bool ta = (layout & 1) != 0, tb = (layout & 2) != 0;
            check_kernel(bench, product(ta ? Shape{k, m} : Shape{m, k}, tb ? Shape{n, k} : Shape{k, n}, ta, tb),
                         kTolerance);
        }
}

TEST_CASE("matmul: batches, broadcast and strided") {
    Bench bench;
    check_kernel(bench, product({3, 5, 7}, {3, 7, 9}, false, false), kTolerance);
    check_kernel(bench, product({3, 5, 7}, {7, 9}, false, false), kTolerance);
    check_kernel(bench, product({1, 5, 7}, {4, 9, 7}, false, true), kTolerance);
    check_kernel(bench, product({2, 1, 5, 6}, {1, 3, 6, 4}, false, false), kTolerance);
    check_kernel(bench, product({2, 3, 2, 5, 6}, {2, 1, 2, 6, 4}, false, false), kTolerance);
    Builder b;
    // Heads of a projection [B, T, 3C] -> scores: slices, reshapes and transposes that stay views.
    const ValueId x = b.input("x", Kind::float_, {2, 6, 24});
    const auto head = [&](int64_t start) {
        const ValueId part = b(Op::slice, {x}, {{"axis", int64_t{2}}, {"start", start}, {"length", int64_t{8}}});
        return b(Op::transpose, {b(Op::reshape, {part}, {{"shape", std::vector<int64_t>{2, 6, 2, 4}}})},
                 {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
    };
    b.output("scores", b(Op::matmul, {head(0), head(8)}, {{"transpose_b", int64_t{1}}}));
    b.output("flipped",
             b(Op::matmul, {b(Op::flip, {head(0)}, {{"axis", int64_t{3}}}), head(16)}, {{"transpose_b", int64_t{1}}}));
    check_kernel(bench, finished(std::move(b)), kTolerance);
}

TEST_CASE("matmul: few tiles and a long K are split, and summed in order") {
    Bench bench;
    for (const bool transposed : {false, true}) {
        const Graph graph = product(transposed ? Shape{60'001, 3} : Shape{3, 60'001}, {60'001, 12}, transposed, false);
        const auto lowered = program::lower(graph, bench->limits(), {.outputs = {"y"}});
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        CHECK(lowered.value().dispatches.size() == 2);
        check_kernel(bench, graph, 5e-6); // 60,001 terms
    }
}

TEST_CASE("linear: both weight layouts, with and without bias, and its gradients") {
    Bench bench;
    for (int variant = 0; variant < 4; ++variant) {
        CAPTURE(variant);
        Builder b;
        const bool input_first = (variant & 1) != 0;
        const ValueId x = b.parameter("x", {3, 5, 12}, 0, 0, 0, 0);
        const ValueId w = b.parameter("w", input_first ? Shape{12, 18} : Shape{18, 12}, 0, 0, 0, 0);
        const ValueId bias = (variant & 2) != 0 ? b.parameter("bias", {18}, 0, 0, 0, 0) : graph::kNone;
        const ValueId y = b(Op::linear, {b(Op::tanh, {x}), w, bias}, {{"input_first", int64_t{input_first}}});
        check_kernel(bench, with_gradients(std::move(b), y), kTolerance);
    }
}

TEST_CASE("matmul: gradients of a batched product") {
    Bench bench;
    Builder b;
    const ValueId y =
        b(Op::matmul, {b.parameter("a", {2, 3, 5, 7}, 0, 0, 0, 0), b.parameter("b", {3, 9, 7}, 0, 0, 0, 0)},
          {{"transpose_b", int64_t{1}}});
    check_kernel(bench, with_gradients(std::move(b), y), kTolerance);
}

TEST_CASE("matmul: every kernel equals the interpreter") {
    Bench bench;
    const std::pair<Shape, Shape> cases[] = {{{70, 33}, {33, 129}}, {{1, 5}, {5, 1}}, {{2, 130, 64}, {2, 64, 131}}};
    for (const auto& [a, b] : cases)
        for (const char* choice : {"tiled.t64", "tiled.t128", "direct.t1x4", "direct.t4x4", "direct.t16x4",
                                   "direct.t32x4", "direct.t64x4", "uniform.t6x4", "uniform.t2x4", "uniform.t8x1"}) {
            CAPTURE(choice);
            const Graph graph = product(a, b, false, false);
            Random random(3);
            const graph::Feeds feeds = kernel_feeds(graph, random);
            RunOptions options;
            const int64_t batches = a.rank() == 3 ? a[0] : 1;
            options.compile
                .kernel_choices[fmt::format("matmul NN f32 [{}x {}, {}, {}]", batches, a[-2], b[-1], a[-1])] = choice;
            std::string where;
            const double error =
                worst_error(run_on_device(*bench, graph, feeds, options), run_in_interpreter(graph, feeds), &where);
            CHECK_MESSAGE(error <= kTolerance, "error " << error << " at " << where);
        }
}

} // namespace matmul_test
