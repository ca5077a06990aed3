// Linears with a fused epilogue: the same bits as with two kernels, with fewer dispatches.
#include "program/kernel_case.hpp"
#include "program/lowering/matmul_kernels.hpp"
#include "program/runtime.hpp"

namespace epilogue_test {

using namespace hekla;
using namespace hekla::test;

namespace {

struct Case {
    Shape x; // [..., K]
    int64_t n = 0;
    bool input_first = false;
};

const Case kCases[] = {
    {{1, 7}, 5, true}, {{2, 3, 12}, 18, false}, {{3, 60'001}, 12, true}, {{70, 33}, 129, false}, {{13}, 31, true}};

ValueId linear(Builder& b, const Case& c, const std::string& name) {
    const ValueId x = b.input("x" + name, Kind::float_, c.x);
    const ValueId w = b.parameter("w" + name, c.input_first ? Shape{c.x[-1], c.n} : Shape{c.n, c.x[-1]}, 0, 0, 0, 0);
    return b(Op::linear, {x, w, b.parameter("b" + name, {c.n}, 0, 0, 0, 0)}, {{"input_first", int64_t{c.input_first}}});
}

std::vector<program::Dispatch> dispatches_of(Bench& bench, const Graph& graph, program::CompileOptions options,
                                             bool fused) {
    options.fused = fused;
    auto lowered = program::lower(graph, bench->limits(), options);
    REQUIRE_MESSAGE(lowered.ok(), lowered.message());
    return std::move(lowered.value().dispatches);
}

// Compares fused and unfused: the same bits, close to the interpreter's. Returns the number of dispatches saved.
int dispatches_saved(Bench& bench, const Graph& graph, RunOptions options = {}) {
    Random random(7);
    const graph::Feeds feeds = kernel_feeds(graph, random);
    options.compile.outputs = {"y"};
    const Outcome fused = run_on_device(*bench, graph, feeds, options);
    options.compile.fused = false;
    const Outcome apart = run_on_device(*bench, graph, feeds, options);
    CHECK_MESSAGE(same_bits(fused, apart), "the bits differ from those of two kernels");
    std::string where;
    const double error = worst_error(fused, run_in_interpreter(graph, feeds), &where);
    CHECK_MESSAGE(error <= 5e-6, "error " << error << " at " << where);

    return static_cast<int>(dispatches_of(bench, graph, options.compile, false).size()) -
           static_cast<int>(dispatches_of(bench, graph, options.compile, true).size());
}

} // namespace

TEST_CASE("linear: a residual is added before the result is stored") {
    Bench bench;
    for (const Case& c : kCases)
        for (const bool first : {false, true}) {
            CAPTURE(c.n);
            CAPTURE(first);
            Builder b;
            const ValueId y = linear(b, c, "");
            const ValueId residual = b.input("residual", Kind::float_, b.shape(y));
            b.output("y", first ? b(Op::add, {y, residual}) : b(Op::add, {residual, y}));
            CHECK(dispatches_saved(bench, finished(std::move(b))) == 1);
        }
}

TEST_CASE("linear: a sum that other operations read too is added before the result is stored") {
    Bench bench;
    for (const Case& c : kCases) {
        CAPTURE(c.n);
        Builder b;
        const ValueId y = linear(b, c, "");
        const ValueId sum = b(Op::add, {y, b.input("residual", Kind::float_, b.shape(y))});
        b.output("y", b(Op::mul, {b(Op::silu, {sum}), sum}));
        b.output("sum", sum);
        const auto bytes = 4.0 * static_cast<double>(b.shape(sum).elements());
        const Graph graph = finished(std::move(b));
        Random random(7);
        const graph::Feeds feeds = kernel_feeds(graph, random);
        RunOptions options;
        options.compile.outputs = {"y", "sum"};
        const Outcome fused = run_on_device(*bench, graph, feeds, options);
        const std::vector<program::Dispatch> dispatches = dispatches_of(bench, graph, options.compile, true);
        options.compile.fused = false;
        CHECK(same_bits(fused, run_on_device(*bench, graph, feeds, options)));
        if (!bench->limits().generated_shaders) continue;
        // The group of silu and the product reads the sum alone.
        REQUIRE(!dispatches.back().source.empty());
        CHECK(dispatches.back().bytes == 2 * bytes);
    }
}

TEST_CASE("linear: activations for few rows") {
    Bench bench;
    for (const Case& c : kCases)
        for (int activation = 0; activation < 3; ++activation) {
            CAPTURE(c.n);
            CAPTURE(activation);
            Builder b;
            const ValueId x = linear(b, c, "");
            b.output("y", activation == 0 ? b(Op::relu, {x})
                                          : b(Op::gelu, {x}, {{"tanh_approximation", int64_t{activation - 1}}}));
            const int saved = dispatches_saved(bench, finished(std::move(b)));
            CHECK(saved == (bench->limits().cpu && c.x.rank() == 2 && c.x[0] > 8 ? 0 : 1));
        }
}

TEST_CASE("linear: every kernel fuses a residual") {
    Bench bench;
    for (const program::MatmulKernel& kernel : program::matmul_kernels())
        for (const int64_t columns : {129, 132}) {
            if (kernel.family == program::MatmulFamily::matrix) continue;          // matmul_test.cpp
            if (kernel.name.starts_with("tiled.t128") && columns != 132) continue; // others have edges inside a vector
            CAPTURE(kernel.name);
            CAPTURE(columns);
            Builder b;
            const bool rows = kernel.needs.dense_along_k;
            const ValueId y = linear(b, {{70, 33}, columns, !rows}, "");
            b.output("y", b(Op::add, {y, b.input("residual", Kind::float_, b.shape(y))}));
            RunOptions options;
            options.compile.kernel_choices[fmt::format("matmul N{} f32 [1x 70, {}, 33]", rows ? 'T' : 'N', columns)] =
                kernel.name;
            CHECK(dispatches_saved(bench, finished(std::move(b)), options) == 1);
        }
}

TEST_CASE("linear: kernels for GPUs fuse activations") {
    program::RuntimeOptions as_gpu;
    as_gpu.kernels_of_gpus = true;
    Bench bench(as_gpu);
    for (const char* kernel : {"tiled.t128", "tiled.t64", "tiled.t32x64", "vector.r4"})
        for (const int64_t columns : {65, 68}) {
            CAPTURE(kernel);
            CAPTURE(columns);
            Builder b;
            const ValueId y = linear(b, {{34, 33}, columns, true}, "");
            b.output("y", b(Op::gelu, {y}, {{"tanh_approximation", int64_t{1}}}));
            RunOptions options;
            options.compile.kernel_choices[fmt::format("matmul NN f32 [1x 34, {}, 33]", columns)] = kernel;
            CHECK(dispatches_saved(bench, finished(std::move(b)), options) == 1);
        }
}

TEST_CASE("linear: residuals with other strides, of other linears, and results that are read twice") {
    Bench bench;
    const Case c{{2, 6, 8}, 8, true};
    {
        Builder b; // a transposed residual has no dense rows
        const ValueId y = linear(b, c, "");
        const ValueId residual = b(Op::transpose, {b.input("residual", Kind::float_, {2, 8, 6})},
                                   {{"permutation", std::vector<int64_t>{0, 2, 1}}});
        b.output("y", b(Op::add, {y, residual}));
        CHECK(dispatches_saved(bench, finished(std::move(b))) == 0); // a copy instead of the sum
    }
    {
        Builder b; // rows of a wider tensor
        const ValueId y = linear(b, c, "");
        const ValueId wide = b.input("wide", Kind::float_, {2, 6, 24});
        b.output("y",
                 b(Op::add,
                   {b(Op::slice, {wide}, {{"axis", int64_t{2}}, {"start", int64_t{8}}, {"length", int64_t{8}}}), y}));
        CHECK(dispatches_saved(bench, finished(std::move(b))) == 1);
    }
    {
        Builder b; // rows in reverse order, which are copied first
        const ValueId y = linear(b, {{6, 8}, 8, true}, "");
        const ValueId flipped = b(Op::flip, {b.input("residual", Kind::float_, {6, 8})}, {{"axis", int64_t{0}}});
        b.output("y", b(Op::add, {y, flipped}));
        CHECK(dispatches_saved(bench, finished(std::move(b))) == 1);
    }
    {
        Builder b;
        b.output("y", b(Op::add, {linear(b, c, "1"), linear(b, c, "2")}));
        CHECK(dispatches_saved(bench, finished(std::move(b))) == 1);
    }
    {
        Builder b;
        const ValueId y = linear(b, c, "");
        b.output("y", b(Op::add, {y, y}));
        CHECK(dispatches_saved(bench, finished(std::move(b))) == 0);
    }
    {
        Builder b; // a bias broadcast over rows is not a residual
        const ValueId y = linear(b, c, "");
        b.output("y", b(Op::add, {y, b.input("row", Kind::float_, {8})}));
        CHECK(dispatches_saved(bench, finished(std::move(b))) == 0);
    }
}

namespace {

void check_activation_in_training(bool all) {
    GpuKernelsBench bench;
    for (const program::Storage storage : {program::Storage::f32, program::Storage::f16, program::Storage::bf16})
        for (const int64_t tanh_approximation : {0, 1})
            for (const auto& [rows, width, out] : {std::tuple<int64_t, int64_t, int64_t>{1, 6, 5},
                                                   {3, 17, 9},
                                                   {70, 33, 40},
                                                   {40, 12, 132},
                                                   {2, 5, 2500}}) {
                if (storage != program::Storage::f32 && !bench->limits().storage16) continue;
                // Every kernel takes a second to compile.
                const bool first =
                    tanh_approximation != 0 && (storage == program::Storage::f32 ? rows != 3 : rows == 3);
                if (!all && !first) continue;
                CAPTURE(rows);
                CAPTURE(tanh_approximation);
                Builder b;
                const auto parameter = [&](const char* name, const Shape& shape) {
                    return b.parameter(name, shape, 0, 0, 0, 0);
                };
                const ValueId x = b(Op::tanh, {parameter("x", {rows, width})});
                const ValueId before = b(Op::linear, {x, parameter("up", {out, width}), parameter("b", {out})});
                const ValueId after = b(Op::gelu, {before}, {{"tanh_approximation", tanh_approximation}});
                const ValueId y = b(Op::linear, {after, parameter("down", {width, out})});
                const Graph graph = with_gradients(std::move(b), y);
                Random random(10);
                const graph::Feeds feeds = kernel_feeds(graph, random);
                RunOptions options;
                options.compile.precision = storage;
                const Outcome fused = run_on_device(*bench, graph, feeds, options);
                const auto activations = [&](bool with) {
                    const auto dispatches =
                        dispatches_of(bench, graph, {.outputs = {"loss"}, .precision = storage}, with);
                    return std::ranges::count_if(dispatches, [&](const program::Dispatch& dispatch) {
                        const Op op = graph.nodes[dispatch.node].op;
                        return op == Op::gelu || op == Op::gelu_gradient;
                    });
                };
                CHECK(activations(false) == 2);
                CHECK(activations(true) == 0);
                const auto lowered =
                    program::lower(graph, bench->limits(), {.outputs = {"loss"}, .precision = storage});
                REQUIRE_MESSAGE(lowered.ok(), lowered.message());
                CHECK(std::ranges::count(lowered.value().resources, "an activation, recomputed",
                                         &program::Resource::name) == 1);
                options.compile.fused = false;
                CHECK_MESSAGE(same_bits(fused, run_on_device(*bench, graph, feeds, options)),
                              "fused and unfused differ");
                std::string where;
                const double error = worst_error(fused, run_in_interpreter(graph, feeds), &where);
                const double tolerance = storage == program::Storage::f32   ? 5e-6
                                         : storage == program::Storage::f16 ? 0x1p-8
                                                                            : 0x1p-5;
                CHECK_MESSAGE(error <= tolerance, "error " << error << " at " << where);
            }
}

} // namespace

TEST_CASE(
    "linear: in training the activation and its argument are stored together, and its gradient with a product's") {
    check_activation_in_training(false);
}

TEST_SUITE("long") {
    TEST_CASE("linear: in training every activation is stored with its argument, in every storage") {
        check_activation_in_training(true);
    }
}

TEST_CASE("gradients of norms: added to another gradient, and copied to 16 bits for products") {
    Bench bench;
    for (const program::Storage storage : {program::Storage::f32, program::Storage::f16, program::Storage::bf16})
        for (const Op norm : {Op::layer_norm, Op::rms_norm})
            for (const int64_t width : {1, 6, 17, 64})
                for (const bool first : {false, true}) {
                    if (storage != program::Storage::f32 && !bench->limits().storage16) continue;
                    if (storage == program::Storage::f16 && first) continue;
                    CAPTURE(width);
                    CAPTURE(first);
                    Builder b;
                    const auto parameter = [&](const char* name, const Shape& shape) {
                        return b.parameter(name, shape, 0, 0, 0, 0);
                    };
                    const ValueId ids = b.input("ids", Kind::int32, {3, 5});
                    ValueId x = b(Op::embedding, {parameter("table", {9, 4}), ids});
                    x = b(Op::linear, {x, parameter("in", {width, 4})});
                    for (const char* block : {"1", "2"}) {
                        const ValueId h = b(norm, {x, parameter((std::string("gain") + block).c_str(), {width})});
                        const ValueId y =
                            b(Op::linear, {h, parameter((std::string("w") + block).c_str(), {width, width})});
                        x = first ? b(Op::add, {x, b(Op::tanh, {y})}) : b(Op::add, {b(Op::tanh, {y}), x});
                    }
                    Graph graph = with_gradients(std::move(b), x);
                    Random random(9);
                    const graph::Feeds feeds = kernel_feeds(graph, random);
                    RunOptions options;
                    options.compile.precision = storage;
                    const Outcome fused = run_on_device(*bench, graph, feeds, options);
                    const auto count = [&](bool with) {
                        std::map<std::string, int> kernels;
                        for (const program::Dispatch& dispatch :
                             dispatches_of(bench, graph, {.outputs = {"loss"}, .precision = storage}, with)) {
                            const std::string& name = dispatch.shader;
                            ++kernels[name.starts_with("generated") ? "pointwise" : name.substr(0, name.find('/'))];
                        }
                        return kernels;
                    };
                    // Both sums of a block's two gradients are in the norm's kernel.
                    CHECK(count(true)["norm"] == count(false)["norm"]);
                    CHECK(count(true)["pointwise"] <= count(false)["pointwise"] - 2);
                    options.compile.fused = false;
                    CHECK(same_bits(fused, run_on_device(*bench, graph, feeds, options)));
                    std::string where;
                    const double error = worst_error(fused, run_in_interpreter(graph, feeds), &where);
                    const double tolerance = storage == program::Storage::f32   ? 2e-5
                                             : storage == program::Storage::f16 ? 0x1p-6
                                                                                : 0x1p-3;
                    if (width > 1) CHECK_MESSAGE(error <= tolerance, "error " << error << " at " << where);
                }
}

TEST_CASE("gradients of embeddings: added in place to the table's other gradients") {
    Bench bench;
    for (const int64_t width : {1, 6, 33}) {
        CAPTURE(width);
        Builder b;
        const ValueId table = b.parameter("table", {11, width}, 0, 0, 0, 0);
        const ValueId x = b(Op::embedding, {table, b.input("ids", Kind::int32, {3, 14})});
        const ValueId y = b(Op::linear, {b(Op::tanh, {x}), table});
        const Graph graph = with_gradients(std::move(b), y);
        Random random(11);
        const graph::Feeds feeds = kernel_feeds(graph, random, {{"ids", 11}});
        RunOptions options;
        const Outcome fused = run_on_device(*bench, graph, feeds, options);
        const auto sums = [&](bool with) {
            const auto dispatches = dispatches_of(bench, graph, {.outputs = {"loss"}}, with);
            return std::ranges::count_if(dispatches, [&](const program::Dispatch& dispatch) {
                return graph.nodes[dispatch.node].op == Op::add &&
                       graph.shape(graph.nodes[dispatch.node].outputs[0]) == Shape{11, width};
            });
        };
        CHECK(sums(false) == 1);
        CHECK(sums(true) == 0);
        std::string where;
        const double error = worst_error(fused, run_in_interpreter(graph, feeds), &where);
        CHECK_MESSAGE(error <= 5e-6, "error " << error << " at " << where);
        options.compile.fused = false;
        CHECK_MESSAGE(same_bits(fused, run_on_device(*bench, graph, feeds, options)), "fused and unfused differ");
        options.compile.fused = true;
        options.runs = 2;
        CHECK_MESSAGE(same_bits(fused, run_on_device(*bench, graph, feeds, options)), "a second run differs");
    }
}

} // namespace epilogue_test
