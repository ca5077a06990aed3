// Norms, softmax, cross entropy, reductions, embedding and gather: the device against the interpreter.
#include "program/kernel_case.hpp"

namespace row_test {

using namespace hekla;
using namespace hekla::test;

namespace {
constexpr double kTolerance = 4e-6;
const Shape kShapes[] = {{1, 1}, {3, 7}, {2, 5, 16}, {9, 33}, {4, 128}, {70, 40}};
} // namespace

TEST_CASE("layer_norm and rms_norm, forward and gradients") {
    Bench bench;
    for (const Shape& shape : kShapes)
        for (int variant = 0; variant < 6; ++variant) {
            if (shape[-1] == 1) continue; // only rounding is left of a row of one
            CAPTURE(shape.text());
            CAPTURE(variant);
            Builder b;
            const ValueId x = b.parameter("x", shape, 0, 0, 0, 0);
            const ValueId gain = variant % 3 > 0 ? b.parameter("gain", {shape[-1]}, 0, 0, 0, 0) : graph::kNone;
            const ValueId bias = variant % 3 > 1 ? b.parameter("bias", {shape[-1]}, 0, 0, 0, 0) : graph::kNone;
            const ValueId in = b(Op::mul, {x, b.scalar(1.5)});
            const ValueId y = variant < 3 ? b(Op::layer_norm, {in, gain, bias}) : b(Op::rms_norm, {in, gain});
            check_kernel(bench, with_gradients(std::move(b), y), 2e-5);
        }
}

TEST_CASE("gradients of norms in one pass, as on GPUs") {
    GpuKernelsBench bench;
    const int64_t lanes = bench->limits().subgroup_size;
    // Rows in several chunks or in one, in vectors of four or not, and too wide for registers.
    for (const Shape& shape :
         {Shape{300, 40}, Shape{3, 5, 7}, Shape{1, 6}, Shape{37, 32 * lanes}, Shape{9, 32 * lanes + 4}})
        for (int variant = 0; variant < 4; ++variant) {
            CAPTURE(shape.text());
            CAPTURE(variant);
            Builder b;
            const ValueId x = b.parameter("x", shape, 0, 0, 0, 0);
            const ValueId gain = variant % 2 > 0 ? b.parameter("gain", {shape[-1]}, 0, 0, 0, 0) : graph::kNone;
            const ValueId bias = variant % 2 > 0 ? b.parameter("bias", {shape[-1]}, 0, 0, 0, 0) : graph::kNone;
            const ValueId in = b(Op::mul, {x, b.scalar(1.5)});
            const ValueId y = variant < 2 ? b(Op::layer_norm, {in, gain, bias}) : b(Op::rms_norm, {in, gain});
            const Graph graph = with_gradients(std::move(b), y);
            check_kernel(bench, graph, 2e-5);
            const auto lowered = program::lower(graph, bench->limits(), {.outputs = {"loss"}});
            REQUIRE_MESSAGE(lowered.ok(), lowered.message());
            const auto of = [&](std::string_view kernel) {
                return std::ranges::count_if(lowered.value().dispatches, [&](const program::Dispatch& dispatch) {
                    return dispatch.shader.starts_with(kernel);
                });
            };
            const bool fits = shape[-1] <= 32 * lanes, sums = variant % 2 > 0; // of a gain or bias that is trained
            CHECK(of("norm/full_gradient") == (sums && fits ? 1 : 0));
            CHECK(of("norm/gain_gradient") == (sums && !fits ? 1 : 0));
            CHECK(of("norm/gradient") == (sums && fits ? 0 : 1));
        }
}

TEST_CASE("norms whose gain and bias are frozen, or one of them: only what is read is summed") {
    Bench bench;
    for (const int trained : {0, 1, 2}) {
        CAPTURE(trained);
        Builder b;
        const ValueId x = b.parameter("x", {70, 40}, 0, 0, 0, 0);
        const ValueId gain = b.parameter("gain", {40}, 0, 0, 0, 0), bias = b.parameter("bias", {40}, 0, 0, 0, 0);
        const ValueId y = b(Op::layer_norm, {b(Op::mul, {x, b.scalar(1.5)}), gain, bias});
        std::set<std::string, std::less<>> frozen;
        if (trained != 1) frozen.insert("gain");
        if (trained != 2) frozen.insert("bias");
        const Graph graph = with_gradients(std::move(b), y, frozen);
        check_kernel(bench, graph, 2e-5);
        const auto lowered = program::lower(graph, bench->limits(), {.outputs = {"loss"}});
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        const auto sums = std::ranges::count_if(lowered.value().dispatches, [](const program::Dispatch& dispatch) {
            return dispatch.shader.starts_with("norm/gain_gradient") ||
                   dispatch.shader.starts_with("norm/full_gradient");
        });
        CHECK(sums == (trained == 0 ? 0 : 1));
    }
}

TEST_CASE("rows on GPUs: loads of four elements, of rows in registers and of longer ones") {
    GpuKernelsBench bench;
    const int64_t lanes = bench->limits().subgroup_size, most = 16 * 4 * lanes; // in registers
    for (const int64_t width : {int64_t{4}, int64_t{44}, most, most + 4, int64_t{46}}) {
        CAPTURE(width);
        const Shape shape{9, width};
        const auto check = [&](Builder b, ValueId y, std::set<std::string> kernels,
                               const std::map<std::string, int64_t>& integers = {}) {
            const Graph graph = with_gradients(std::move(b), y);
            check_kernel(bench, graph, 2e-5, integers);
            const auto lowered = program::lower(graph, bench->limits(), {.outputs = {"loss"}});
            REQUIRE_MESSAGE(lowered.ok(), lowered.message());
            for (const program::Dispatch& dispatch : lowered->dispatches) {
                kernels.erase(dispatch.shader);
                if (dispatch.shader == "norm/forward.fours" || dispatch.shader == "softmax/forward.fours")
                    CHECK((dispatch.constants[dispatch.shader == "norm/forward.fours" ? 5 : 3] > 0) == (width <= most));
            }
            if (width % 4 == 0) CHECK_MESSAGE(kernels.empty(), *kernels.begin(), " is not used");
        };
        const auto scaled = [&](Builder& b) {
            return b(Op::mul, {b.parameter("x", shape, 0, 0, 0, 0), b.scalar(1.5)});
        };
        for (const bool rms : {false, true}) {
            Builder b;
            const ValueId gain = b.parameter("gain", {width}, 0, 0, 0, 0),
                          bias = b.parameter("bias", {width}, 0, 0, 0, 0);
            const ValueId x = scaled(b);
            const ValueId y = rms ? b(Op::rms_norm, {x, gain}) : b(Op::layer_norm, {x, gain, bias});
            std::set<std::string> kernels{"norm/forward.fours"};
            if (width > 32 * lanes)
                kernels.merge(std::set<std::string>{"norm/gradient.fours", "norm/gain_gradient.fours"});
            check(std::move(b), y, kernels);
        }
        for (const Op op : {Op::softmax, Op::log_softmax}) {
            Builder b;
            const ValueId x = scaled(b);
            const ValueId y = b(op, {x});
            check(std::move(b), y, {"softmax/forward.fours"});
        }
        Builder b;
        const ValueId x = scaled(b);
        const ValueId rows = b(Op::logsumexp, {x}, {{"axes", std::vector<int64_t>{1}}});
        const ValueId columns = b(Op::sum, {x}, {{"axes", std::vector<int64_t>{0}}});
        const ValueId top = b(Op::max, {b(Op::mul, {x, columns})}, {{"axes", std::vector<int64_t>{1}}});
        std::set<std::string> kernels{"reduce/down.fours"};
        if (width >= 32) kernels.insert("reduce/rows.fours");
        check(std::move(b), b(Op::add, {rows, top}), kernels);
        Builder look_up;
        const ValueId table = look_up.parameter("table", shape, 0, 0, 0, 0);
        const ValueId y = look_up(Op::embedding, {table, look_up.input("ids", Kind::int32, {3, 7})});
        const ValueId again = look_up(Op::embedding, {table, look_up.input("more", Kind::int32, {3, 7})});
        const ValueId both = look_up(Op::mul, {y, again});
        check(std::move(look_up), both, {"embedding/lookup.fours", "embedding/segments.fours"},
              {{"ids", 9}, {"more", 9}});
        for (const double smoothing : {0.0, 0.125}) {
            Builder loss;
            const ValueId logits = scaled(loss);
            const ValueId weights = smoothing > 0 ? loss.input("weights", Kind::float_, {width}) : graph::kNone;
            const ValueId each = loss(Op::cross_entropy, {logits, loss.input("labels", Kind::int32, {9}), weights},
                                      {{"smoothing", smoothing}});
            check(std::move(loss), each, {"loss/cross_entropy.fours", "loss/cross_entropy_gradient.fours"},
                  {{"labels", width}});
        }
    }
}

TEST_CASE("rows in 16 bits on GPUs") {
    GpuKernelsBench bench;
    if (!bench->limits().storage16) return;
    const int64_t lanes = bench->limits().subgroup_size;
    for (const int64_t width : {int64_t{44}, 64 * lanes + 4}) {
        CAPTURE(width);
        Builder b;
        const ValueId gain = b.parameter("gain", {width}, 0, 0, 0, 0), w = b.parameter("w", {8, width}, 0, 0, 0, 0);
        const ValueId table = b.parameter("table", {9, width}, 0, 0, 0, 0);
        const ValueId x = b(Op::mul, {b(Op::embedding, {table, b.input("ids", Kind::int32, {12})}), b.scalar(1.5)});
        const ValueId y = b(Op::linear, {b(Op::rms_norm, {x, gain}), w});
        const Graph graph = with_gradients(std::move(b), y);
        Random random(1);
        const graph::Feeds feeds = kernel_feeds(graph, random, {{"ids", 9}});
        RunOptions options;
        options.compile.precision = program::Storage::bf16;
        std::string where;
        auto got = run_on_device(*bench, graph, feeds, options), expected = run_in_interpreter(graph, feeds);
        // The loss is a sum of 96 rounded products of both signs, which cancel. Its terms are in the gradients.
        for (auto* results : {&got, &expected})
            std::erase_if(*results, [](const auto& result) { return result.first.starts_with("loss"); });
        REQUIRE(expected.size() >= 3);
        const double error = worst_error(got, expected, &where);
        CHECK_MESSAGE(error <= 2e-2, "error " << error << " at " << where);
        options.compile.outputs = {"loss"};
        const auto lowered = program::lower(graph, bench->limits(), options.compile);
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        CHECK(std::ranges::count(lowered->dispatches, "norm/forward.fours_16", &program::Dispatch::shader) == 1);
    }
}

TEST_CASE("layer_norm of strided rows and of rows far from 0") {
    Bench bench;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {3, 4, 20});
    const ValueId part = b(Op::slice, {x}, {{"axis", int64_t{2}}, {"start", int64_t{3}}, {"length", int64_t{10}}});
    b.output("strided", b(Op::layer_norm, {part}));
    b.output("turned", b(Op::layer_norm, {b(Op::transpose, {x}, {{"permutation", std::vector<int64_t>{2, 0, 1}}})}));
    b.output("far", b(Op::layer_norm, {b(Op::add, {x, b.scalar(1000.0)})}));
    check_kernel(bench, finished(std::move(b)), 2e-4); // adding 1,000 loses four digits in float32 before the norm
}

TEST_CASE("softmax and log_softmax along every axis, and gradients") {
    Bench bench;
    for (const Op op : {Op::softmax, Op::log_softmax})
        for (int64_t axis = -1; axis < 3; ++axis) {
            CAPTURE(axis);
            Builder b;
            const ValueId x = b.parameter("x", {3, 9, 18}, 0, 0, 0, 0);
            const ValueId y = b(op, {b(Op::mul, {x, b.scalar(3.0)})}, {{"axis", axis}});
            check_kernel(bench, with_gradients(std::move(b), y), kTolerance);
        }
}

TEST_CASE("cross_entropy with its options, and its gradient") {
    Bench bench;
    for (const int64_t classes : {2, 7, 65, 128})
        for (int variant = 0; variant < 4; ++variant) {
            CAPTURE(classes);
            CAPTURE(variant);
            Builder b;
            const ValueId x = b.parameter("x", {3, 5, classes}, 0, 0, 0, 0);
            const ValueId labels = b.input("labels", Kind::int32, {3, 5});
            const ValueId weights = (variant & 1) != 0 ? b.parameter("weights", {classes}, 0, 0, 0, 0) : graph::kNone;
            const ValueId fixed = weights == graph::kNone ? weights : b(Op::stop_gradient, {weights});
            const ValueId y = b(Op::cross_entropy, {b(Op::mul, {x, b.scalar(2.0)}), labels, fixed},
                                {{"ignore_index", int64_t{1}}, {"smoothing", (variant & 2) != 0 ? 0.1 : 0.0}});
            check_kernel(bench, with_gradients(std::move(b), y), kTolerance, {{"labels", classes}});
        }
}

TEST_CASE("reductions over any axes") {
    Bench bench;
    const std::vector<std::vector<int64_t>> axes = {{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}};
    for (const auto& over : axes)
        for (const int64_t keep : {0, 1}) {
            CAPTURE(over.size());
            CAPTURE(over[0]);
            CAPTURE(keep);
            Builder b;
            const ValueId x = b.input("x", Kind::float_, {5, 6, 37});
            const ValueId n = b.input("n", Kind::int32, {5, 6, 37});
            b.output("sum", b(Op::sum, {x}, {{"axes", over}, {"keep", keep}}));
            b.output("mean", b(Op::mean, {x}, {{"axes", over}, {"keep", keep}}));
            b.output("max", b(Op::max, {x}, {{"axes", over}, {"keep", keep}}));
            b.output("logsumexp", b(Op::logsumexp, {x}, {{"axes", over}, {"keep", keep}}));
            b.output("int sum", b(Op::sum, {n}, {{"axes", over}, {"keep", keep}}));
            b.output("int max", b(Op::max, {n}, {{"axes", over}, {"keep", keep}}));
            if (over.size() == 1) {
                b.output("argmax", b(Op::argmax, {x}, {{"axis", over[0]}}));
                b.output("int argmax", b(Op::argmax, {n}, {{"axis", over[0]}}));
            }
            check_kernel(bench, finished(std::move(b)), kTolerance);
        }
}

TEST_CASE("long reductions are split and their parts added in order") {
    Bench bench;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {3, 20001});
    b.output("rows", b(Op::sum, {x}, {{"axes", std::vector<int64_t>{1}}}));
    b.output("columns", b(Op::sum, {x}, {{"axes", std::vector<int64_t>{0}}}));
    const ValueId tall = b.input("tall", Kind::float_, {9000, 3});
    b.output("tall", b(Op::sum, {tall}, {{"axes", std::vector<int64_t>{0}}}));
    b.output("max", b(Op::max, {tall}, {{"axes", std::vector<int64_t>{0, 1}}}));
    check_kernel(bench, finished(std::move(b)), kTolerance);
}

TEST_CASE("embedding: lookups and gradients of repeated ids") {
    Bench bench;
    for (const int64_t width : {1, 6, 33, 128}) {
        CAPTURE(width);
        Builder b;
        const ValueId ids = b.input("ids", Kind::int32, {3, 14});
        const ValueId table = b.parameter("table", {11, width}, 0, 0, 0, 0);
        const ValueId y = b(Op::tanh, {b(Op::embedding, {table, ids}, {{"no_gradient_id", int64_t{4}}})});
        check_kernel(bench, with_gradients(std::move(b), y), kTolerance, {{"ids", 9}});
    }
}

TEST_CASE("gather, batched or not, and its gradient") {
    Bench bench;
    Builder b;
    const ValueId x = b.parameter("x", {3, 5, 4}, 0, 0, 0, 0);
    const ValueId plain = b(Op::gather, {x, b.input("rows", Kind::int32, {2, 3})});
    b.output("plain", plain);
    const ValueId y = b(Op::gather, {x, b.input("places", Kind::int32, {3, 6})}, {{"batch_dimensions", int64_t{1}}});
    check_kernel(bench, with_gradients(std::move(b), y), kTolerance, {{"rows", 3}, {"places", 5}});
}

namespace {

// x [3, 5, width] with the rows that `places` names in each of the first dimension's parts.
ValueId scattered(Builder& b, Op op, ValueId x, ValueId places, int64_t count, int64_t width) {
    const ValueId values = b.parameter("values", {3, count, width}, 0, 0, 0, 0);
    return b(op, {x, places, b(Op::mul, {values, b.scalar(0.75)})}, {{"batch_dimensions", int64_t{1}}});
}

} // namespace

TEST_CASE("scatter_add and scatter in the middle of a graph, and their gradients") {
    const auto check_all = [](Bench& bench) {
        for (const int64_t width : {1, 3, 4, 66, 131})
            for (const Op op : {Op::scatter_add, Op::scatter}) {
                CAPTURE(width);
                CAPTURE(graph::info(op).name);
                Builder b;
                const ValueId x = b(Op::mul, {b.parameter("x", {3, 5, width}, 0, 0, 0, 0), b.scalar(1.5)});
                const bool adds = op == Op::scatter_add;
                const ValueId places = adds ? b.input("places", Kind::int32, {3, 7})
                                            : b.constant(Kind::int32, {3, 3}, {4, 0, 2, 1, 3, 0, 0, 1, 4});
                const ValueId y = b(Op::tanh, {scattered(b, op, x, places, adds ? 7 : 3, width)});
                check_kernel(bench, with_gradients(std::move(b), y), kTolerance, {{"places", 5}});
            }
    };
    Bench bench;
    check_all(bench);
    GpuKernelsBench on_gpus;
    check_all(on_gpus);
}

TEST_CASE("scatters of scalars' rows, of views and of integers") {
    Bench bench;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {11, 4}), n = b.input("n", Kind::int32, {5, 3});
    const ValueId turned = b(Op::transpose, {x}, {{"permutation", std::vector<int64_t>{1, 0}}});
    const ValueId all = b.input("all", Kind::int32, {17}), one = b.input("one", Kind::int32, {});
    const ValueId few = b.constant(Kind::int32, {1, 2}, {4, 1});
    const ValueId values =
        b(Op::broadcast, {b.input("values", Kind::float_, {17, 1})}, {{"shape", std::vector<int64_t>{17, 11}}});
    b.output("turned", b(Op::scatter_add, {turned, all, values}));
    b.output("one", b(Op::scatter, {x, one, b.input("row", Kind::float_, {4})}));
    b.output("counts", b(Op::scatter_add, {b.fill(Kind::int32, {4}, 0), all, b.fill(Kind::int32, {17}, 1)}));
    const ValueId negative = b(Op::sub, {n, b.fill(Kind::int32, {}, 5)});
    const ValueId rows = b(Op::sub, {b.input("rows", Kind::int32, {1, 2, 3}), b.fill(Kind::int32, {}, 3)});
    b.output("integers", b(Op::scatter, {negative, few, rows}));
    b.output("sums", b(Op::scatter_add, {negative, few, rows}));
    b.output("long", b(Op::scatter_add, {b.input("long", Kind::float_, {3}), b.input("many", Kind::int32, {4099}),
                                         b.input("parts", Kind::float_, {4099})}));
    b.output("empty", b(Op::scatter, {x, b.constant(Kind::int32, {0}, {}), b.fill(Kind::float_, {0, 4}, 0)}));
    check_kernel(bench, finished(std::move(b)), kTolerance, {{"all", 4}, {"one", 11}, {"many", 3}});
}

TEST_CASE("kernels of scatters leave out indices that are out of range, and take the last of duplicates") {
    Bench bench;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {3, 2}), indices = b.input("indices", Kind::int32, {5}),
                  values = b.input("values", Kind::float_, {5, 2});
    b.output("sum", b(Op::scatter_add, {x, indices, values}));
    b.output("last", b(Op::scatter, {x, indices, values}));
    graph::Feeds feeds;
    feeds.fields["x"] = {Kind::float_, {3, 2}, {1, 2, 3, 4, 5, 6}};
    feeds.fields["indices"] = {Kind::int32, {5}, {2, 3, -1, 0, 2}};
    feeds.fields["values"] = {Kind::float_, {5, 2}, {10, 20, 30, 40, 50, 60, 70, 80, 90, 100}};
    const Outcome got = run_on_device(*bench, finished(std::move(b)), feeds, {});
    CHECK(got.at("sum").data == std::vector<double>{71, 82, 3, 4, 105, 126});
    CHECK(got.at("last").data == std::vector<double>{70, 80, 3, 4, 90, 100});
}

TEST_CASE("one_hot in the middle of a graph") {
    Bench bench;
    for (const int64_t size : {1, 7, 37}) {
        CAPTURE(size);
        Builder b;
        const ValueId ids = b.input("ids", Kind::int32, {3, 5});
        const ValueId chosen = b(Op::cast, {b(Op::one_hot, {ids}, {{"size", size}})}, {{"kind", int64_t{0}}});
        const ValueId table = b.parameter("table", {size, 6}, 0, 0, 0, 0);
        const ValueId y = b(Op::matmul, {b(Op::reshape, {chosen}, {{"shape", std::vector<int64_t>{15, size}}}), table});
        check_kernel(bench, with_gradients(std::move(b), y), kTolerance, {{"ids", size + 1}});
    }
}

} // namespace row_test
