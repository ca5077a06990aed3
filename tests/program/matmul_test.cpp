// matmul and linear at odd sizes, in every layout, strided, batched, split along K; on the device against the
// interpreter.
#include "program/kernel_case.hpp"
#include "program/lowering/half.hpp"
#include "program/lowering/matmul_kernels.hpp"
#include "program/lowering/storage16.hpp"

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

TEST_CASE("matmul: a second factor that a CPU's cache does not hold, at odd sizes") {
    Bench bench;
    for (const auto& [batches, m, n, k] :
         {std::array<int64_t, 4>{1, 7, 1101, 71}, {2, 19, 997, 83}, {1, 13, 71, 4101}, {1, 20, 130, 8195}})
        for (const bool ta : {false, true})
            for (const bool tb : {false, true}) {
                CAPTURE(m);
                CAPTURE(ta);
                CAPTURE(tb);
                const Shape a = ta ? Shape{batches, k, m} : Shape{batches, m, k};
                check_kernel(bench, product(a, tb ? Shape{n, k} : Shape{k, n}, ta, tb), k > 4096 ? 5e-6 : kTolerance);
            }
}

TEST_CASE("matmul: CPUs pack the second factor where it is transposed or read by many rows, at odd sizes") {
    Bench bench;
    const bool packs = bench->limits().uniform_loads;
    for (const auto& [batches, m, n, k] : {std::array<int64_t, 4>{1, 193, 131, 37}, {3, 197, 129, 5}, {1, 200, 17, 35}})
        for (const bool ta : {false, true})
            for (const bool tb : {false, true})
                for (const bool one : {false, true}) { // one matrix for all batches
                    CAPTURE(m);
                    CAPTURE(ta);
                    CAPTURE(tb);
                    CAPTURE(one);
                    const Shape a = ta ? Shape{batches, k, m} : Shape{batches, m, k};
                    Shape b = tb ? Shape{batches, n, k} : Shape{batches, k, n};
                    if (one) b = tb ? Shape{n, k} : Shape{k, n};
                    const Graph graph = product(a, b, ta, tb);
                    check_kernel(bench, graph, kTolerance);
                    const auto lowered = program::lower(graph, bench->limits(), {.outputs = {"y"}});
                    REQUIRE_MESSAGE(lowered.ok(), lowered.message());
                    const auto is_pack = [](const program::Dispatch& one) { return one.shader == "matmul/pack"; };
                    if (packs && (tb || n > 64)) CHECK(std::ranges::any_of(lowered.value().dispatches, is_pack));
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

namespace {

// all: also the sizes whose kernels differ in constants alone from others, each of which takes a driver a second.
void check_every_kernel(bool all) {
    Bench bench;
    // Odd sizes, sizes in vectors of four with edges in every direction, K shorter than a step, full tiles.
    const std::pair<Shape, Shape> cases[] = {
        {{70, 33}, {33, 129}},        {{1, 5}, {5, 1}}, {{2, 130, 64}, {2, 64, 131}},
        {{2, 132, 36}, {2, 36, 136}}, {{5, 4}, {4, 8}}, {{128, 64}, {64, 128}},
    };
    for (const auto& [a, b] : cases)
        for (int layout = 0; layout < 4; ++layout)
            for (const program::MatmulKernel& kernel : program::matmul_kernels()) {
                // Drivers compile an instrumented kernel slowly: the cases with edges in every direction.
                if (instrumented() && a[-1] != 33 && a[-1] != 36) continue;
                const bool ta = (layout & 1) != 0, tb = (layout & 2) != 0;
                // Other tests have the layouts of the other kernels; tiles differ in constants alone.
                if (kernel.family == program::MatmulFamily::matrix) continue; // for 16 bits; below
                if (kernel.needs.dense_along_k
                        ? layout != 2
                        : layout > 0 && kernel.name != "tiled.t32x64" && kernel.name != "vector.r4" &&
                              (kernel.name != "tiled.t128x64" || a[-1] != 36))
                    continue;
                const bool large = kernel.name.starts_with("tiled.t128");
                if (!all && (large ? a[-1] != 36 || layout > 0 : layout > 0 && a[-1] != 33)) continue;
                CAPTURE(kernel.name);
                CAPTURE(layout);
                const auto stored = [](Shape shape, bool transposed) {
                    if (transposed) std::swap(shape[-1], shape[-2]);
                    return shape;
                };
                const Graph graph = product(stored(a, ta), stored(b, tb), ta, tb);
                Random random(3);
                const graph::Feeds feeds = kernel_feeds(graph, random);
                RunOptions options;
                const int64_t batches = a.rank() == 3 ? a[0] : 1;
                options.compile.kernel_choices[fmt::format("matmul {}{} f32 [{}x {}, {}, {}]", ta ? 'T' : 'N',
                                                           tb ? 'T' : 'N', batches, a[-2], b[-1], a[-1])] = kernel.name;
                std::string where;
                const double error =
                    worst_error(run_on_device(*bench, graph, feeds, options), run_in_interpreter(graph, feeds), &where);
                CHECK_MESSAGE(error <= kTolerance, "error " << error << " at " << where);
            }
}

} // namespace

TEST_CASE("matmul: every kernel equals the interpreter") { check_every_kernel(false); }

TEST_SUITE("long") {
    TEST_CASE("matmul: every kernel at every size and in every layout equals the interpreter") {
        check_every_kernel(true);
    }
}

TEST_CASE("matmul: kernels for GPUs on views with offsets, aligned to four elements or not") {
    Bench bench;
    for (const char* kernel : {"tiled.t128x64", "tiled.t32x64", "vector.r2"})
        for (const int64_t start : {0, 3, 4})
            for (const bool wide : {false, true}) {
                CAPTURE(kernel);
                CAPTURE(start);
                CAPTURE(wide);
                Builder b;
                const auto part = [&](const char* name, int64_t rows, int64_t columns) {
                    const ValueId x = b.input(name, Kind::float_, {rows, columns + 8 + (wide ? 1 : 0)});
                    return b(Op::slice, {x}, {{"axis", int64_t{1}}, {"start", start}, {"length", columns}});
                };
                b.output("y", b(Op::matmul, {part("a", 20, 44), part("b", 44, 72)}));
                const Graph graph = finished(std::move(b));
                Random random(4);
                const graph::Feeds feeds = kernel_feeds(graph, random);
                RunOptions options;
                options.compile.kernel_choices["matmul NN f32 [1x 20, 72, 44]"] = kernel;
                std::string where;
                const double error =
                    worst_error(run_on_device(*bench, graph, feeds, options), run_in_interpreter(graph, feeds), &where);
                CHECK_MESSAGE(error <= kTolerance, "error " << error << " at " << where);
            }
}

// Returns whether the device has matrix units for this storage, and the build kernels for them.
bool has_matrix_units(Bench& bench, program::Storage storage) {
    const program::Limits& limits = bench->limits();
    if (limits.matrix_unit(storage)) return true;
    MESSAGE("skipped: no matrix units for ", std::string(program::storage_name(storage)));
    return false;
}

// Runs a product of factors in 16 bits with one kernel, and compares it with the interpreter's product of the same
// rounded factors.
void check_matrix_kernel(Bench& bench, const Graph& graph, const std::string& kernel, const std::string& key,
                         program::Storage storage) {
    Random random(6);
    graph::Feeds feeds = kernel_feeds(graph, random);
    for (auto& [name, tensor] : feeds.fields)
        for (double& x : tensor.data)
            x = static_cast<double>(program::from_half(storage, program::to_half(storage, static_cast<float>(x))));
    RunOptions options;
    options.compile.precision = storage;
    for (const char* stored : {"f32", "f16", "bf16"})
        options.compile.kernel_choices[fmt::format("matmul {}", fmt::format(fmt::runtime(key), stored))] = kernel;
    const double tolerance = storage == program::Storage::f16 ? 0x1p-11 : 0x1p-8; // the product is stored in 16 bits
    const Outcome got = run_on_device(*bench, graph, feeds, options);
    std::string where;
    const double error = worst_error(got, run_in_interpreter(graph, feeds), &where);
    CHECK_MESSAGE(error <= tolerance, "error " << error << " at " << where);
    options.runs = 2;
    CHECK(same_bits(got, run_on_device(*bench, graph, feeds, options)));
}

TEST_CASE("matmul: kernels with uniform loads read and write 16 bits") {
    Bench bench;
    if (!bench->limits().uniform_loads) return;
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16}) {
        if (!program::check_storage(bench->limits(), storage).ok()) continue;
        for (const program::MatmulKernel& kernel : program::matmul_kernels()) {
            if (kernel.family != program::MatmulFamily::uniform) continue;
            for (int layout = 0; layout < 4; ++layout)
                for (const auto& [m, n, k] : {std::array<int64_t, 3>{13, 67, 35}, {197, 70, 33}, {9, 3, 2}}) {
                    const bool ta = (layout & 1) != 0, tb = (layout & 2) != 0;
                    CAPTURE(kernel.name);
                    CAPTURE(layout);
                    CAPTURE(m);
                    const Graph graph = product(ta ? Shape{k, m} : Shape{m, k}, tb ? Shape{n, k} : Shape{k, n}, ta, tb);
                    const char* type = program::storage_name(storage);
                    check_matrix_kernel(bench, graph, std::string(kernel.name),
                                        fmt::format("{}{} {} {} {{}} [1x {}, {}, {}]", ta ? 'T' : 'N', tb ? 'T' : 'N',
                                                    type, type, m, n, k),
                                        storage);
                }
        }
    }
}

TEST_CASE("matmul: matrix units equal the interpreter") {
    Bench bench;
    const auto& limits = bench->limits();
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16}) {
        if (!has_matrix_units(bench, storage)) continue;
        for (const program::MatmulKernel& kernel : program::matmul_kernels()) {
            if (kernel.family != program::MatmulFamily::matrix) continue;
            for (int layout = 0; layout < 4; ++layout)
                for (const int size : {0, 1, 2, 3, 4, 5, 6, 7}) {
                    const bool ta = (layout & 1) != 0, tb = (layout & 2) != 0;
                    // Dimensions along which an operand is dense are multiples of eight, the others are odd.
                    int64_t m = ta ? 136 : 141, n = tb ? 77 : 72, k = ta && !tb ? 37 : 40;
                    if (size == 1) m = ta ? 8 : 1, n = tb ? 1 : 8, k = ta && !tb ? 1 : 8;
                    if (size == 2) m = 256, n = 128, k = 64;
                    if (size == 3) m = 64, n = 64, k = 4096; // split
                    // Rows of odd lengths: of both factors, of one of them, shorter than a unit, with K split.
                    if (size == 4) m = 141, n = 77, k = 131;
                    if (size == 5) m = 136, n = 77, k = 72;
                    if (size == 6) m = 3, n = 5, k = 7;
                    if (size == 7) m = 33, n = 65, k = 4099;
                    if (size > 4 && kernel.name != "matrix.t64") continue;
                    const bool unaligned = (ta ? m : k) % 8 != 0 || (tb ? k : n) % 8 != 0;
                    const int64_t batches = size == 0 || size == 4 ? 2 : 1;
                    CAPTURE(kernel.name);
                    CAPTURE(layout);
                    CAPTURE(size);
                    CAPTURE(program::storage_name(storage));
                    const program::MatmulShape shape{.batches = batches,
                                                     .m = m,
                                                     .n = n,
                                                     .k = k,
                                                     .transpose_b = tb,
                                                     .factors = storage,
                                                     .leading = std::max({m, n, k})};
                    const auto candidates = program::matmul_candidates(limits, shape);
                    if (std::ranges::find(candidates, &kernel) == candidates.end()) continue;
                    const Graph graph = product(ta ? Shape{batches, k, m} : Shape{batches, m, k},
                                                tb ? Shape{batches, n, k} : Shape{batches, k, n}, ta, tb);
                    const char* type = program::storage_name(storage);
                    check_matrix_kernel(bench, graph, std::string(kernel.name),
                                        fmt::format("{}{} {} {} {{}} [{}x {}, {}, {}]{}", ta ? 'T' : 'N',
                                                    tb ? 'T' : 'N', type, type, batches, m, n, k,
                                                    unaligned ? " unaligned" : ""),
                                        storage);
                }
        }
    }
}

// x^T y of x [k, m] and y [k, n], and the sum of the rows of one of them.
Graph product_and_sum(int64_t m, int64_t n, int64_t k, bool of_second) {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {k, m}), y = b.input("y", Kind::float_, {k, n});
    b.output("product", b(Op::matmul, {x, y}, {{"transpose_a", int64_t{1}}}));
    b.output("sum", b(Op::sum, {of_second ? y : x}, {{"axes", std::vector<int64_t>{0}}, {"keep", int64_t{0}}}));
    return finished(std::move(b));
}

// Whether no dispatch but the product's reads the factor.
bool in_one_pass(Bench& bench, const Graph& graph, const RunOptions& options) {
    const auto lowered = program::lower(graph, bench->limits(), options.compile);
    REQUIRE_MESSAGE(lowered.ok(), lowered.message());
    return std::ranges::none_of(lowered.value().dispatches, [&](const program::Dispatch& dispatch) {
        return graph.nodes[dispatch.node].op == Op::sum;
    });
}

TEST_CASE("matmul: a factor's rows are added in the product's pass") {
    GpuKernelsBench bench;
    struct Case {
        const char* kernel;
        int64_t m, n, k;
        bool once;
    };
    for (const auto& [kernel, m, n, k, once] : {Case{"tiled.t128", 140, 132, 37, true},
                                                {"tiled.t128x64", 33, 130, 3, true},
                                                {"tiled.t64", 70, 129, 700, true}, // K in two parts
                                                {"tiled.t32x64", 40, 8, 5000, true},
                                                {"tiled.t32x64", 5, 3, 2, true},
                                                {"vector.r4", 4, 70, 50, false}})
        for (const bool of_second : {false, true}) {
            CAPTURE(std::string(kernel));
            CAPTURE(m);
            CAPTURE(of_second);
            const Graph graph = product_and_sum(m, n, k, of_second);
            Random random(6);
            const graph::Feeds feeds = kernel_feeds(graph, random);
            RunOptions options;
            options.compile.kernel_choices[fmt::format("matmul TN f32 [1x {}, {}, {}]", m, n, k)] = kernel;
            options.compile.outputs = {"product", "sum"};
            CHECK(in_one_pass(bench, graph, options) == once);
            const Outcome got = run_on_device(*bench, graph, feeds, options);
            std::string where;
            const double error = worst_error(got, run_in_interpreter(graph, feeds), &where);
            CHECK_MESSAGE(error <= kTolerance, "error " << error << " at " << where);
            options.runs = 2;
            CHECK(same_bits(got, run_on_device(*bench, graph, feeds, options)));
        }
}

TEST_CASE("matmul: matrix units add a factor's rows in the product's pass") {
    Bench bench;
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16}) {
        if (!has_matrix_units(bench, storage)) continue;
        for (const auto& [kernel, m, n, k] : {std::tuple<const char*, int64_t, int64_t, int64_t>{"t128", 136, 264, 37},
                                              {"t128x2", 8, 136, 70},
                                              {"t128k64", 136, 8, 65},
                                              {"t64", 64, 72, 4096}, // K in parts
                                              {"t64", 77, 45, 4099},
                                              {"t128", 137, 8, 70}})
            for (const bool of_second : {false, true}) {
                CAPTURE(std::string(kernel));
                CAPTURE(of_second);
                const program::MatmulShape shape{.batches = 1,
                                                 .m = m,
                                                 .n = n,
                                                 .k = k,
                                                 .transpose_b = false,
                                                 .factors = storage,
                                                 .leading = std::max({m, n, k})};
                const auto candidates = program::matmul_candidates(bench->limits(), shape);
                if (std::ranges::find(candidates, program::find_matmul_kernel(fmt::format("matrix.{}", kernel))) ==
                    candidates.end())
                    continue;
                const Graph graph = product_and_sum(m, n, k, of_second);
                const char* type = program::storage_name(storage);
                RunOptions options;
                options.compile.precision = storage;
                options.compile.outputs = {"product", "sum"};
                CHECK(in_one_pass(bench, graph, options));
                check_matrix_kernel(bench, graph, std::string("matrix.") + kernel,
                                    fmt::format("TN {} {} {{}} [1x {}, {}, {}]{}", type, type, m, n, k,
                                                m % 8 != 0 || n % 8 != 0 ? " unaligned" : ""),
                                    storage);
            }
    }
}

TEST_CASE("matmul: matrix units with a bias, an activation, a residual and views") {
    Bench bench;
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16}) {
        if (!has_matrix_units(bench, storage)) continue;
        // C in vectors of four, or not; x aligned to eight elements, or not.
        for (const auto& [width, start] : {std::pair<int64_t, int64_t>{40, 8}, {43, 8}, {40, 3}, {40, 4}}) {
            CAPTURE(width);
            CAPTURE(start);
            Builder b;
            const ValueId wide = b.input("x", Kind::float_, {70, 64});
            const ValueId x = b(Op::slice, {wide}, {{"axis", int64_t{1}}, {"start", start}, {"length", int64_t{48}}});
            const ValueId w = b.input("w", Kind::float_, {width, 48}), bias = b.input("bias", Kind::float_, {width});
            const ValueId before = b.input("residual", Kind::float_, {70, width});
            const ValueId y = b(Op::linear, {x, w, bias});
            b.output("y", b(Op::add, {b(Op::gelu, {y}), before}));
            const char* type = program::storage_name(storage);
            check_matrix_kernel(
                bench, finished(std::move(b)), "matrix.t64",
                fmt::format("NT {} {} {{}} [1x 70, {}, 48]{}", type, type, width, start % 8 != 0 ? " unaligned" : ""),
                storage);
        }
    }
}

TEST_CASE("matmul: tiled kernels give the same bits, whatever the tile and the alignment") {
    Bench bench;
    for (const int64_t k : {64, 77, 100}) {
        const Graph graph = product({40, k}, {k, 80}, false, false);
        Random random(5);
        const graph::Feeds feeds = kernel_feeds(graph, random);
        Outcome first;
        for (const char* kernel : {"tiled.t128", "tiled.t128x64", "tiled.t128x32", "tiled.t64", "tiled.t32x64"}) {
            CAPTURE(kernel);
            RunOptions options;
            options.compile.kernel_choices[fmt::format("matmul NN f32 [1x 40, 80, {}]", k)] = kernel;
            const Outcome got = run_on_device(*bench, graph, feeds, options);
            if (first.empty()) first = got;
            CHECK(same_bits(first, got));
        }
    }
}

TEST_CASE("matmul: kernels for few rows give a row the same bits, however many rows there are") {
    GpuKernelsBench bench;
    for (const bool transposed : {false, true}) {
        Random random(6);
        const graph::Tensor weights =
            random.tensor(Kind::float_, transposed ? Shape{30, 700} : Shape{700, 30}); // columns and K with a rest
        const graph::Tensor rows = random.tensor(Kind::float_, {4, 700});
        std::vector<double> first;
        for (const int64_t m : {1, 2, 3, 4}) {
            CAPTURE(m);
            const Graph graph = product({m, 700}, weights.shape, false, transposed);
            graph::Feeds feeds;
            feeds.fields["a"] = {Kind::float_, {m, 700}, {rows.data.begin(), rows.data.begin() + m * 700}};
            feeds.fields["b"] = weights;
            std::vector<double> y = run_on_device(*bench, graph, feeds, {}).at("y").data;
            y.resize(30);
            if (first.empty()) first = y;
            CHECK(y == first);
        }
    }
}

TEST_CASE("matmul: which kernels a GPU prefers") {
    program::Limits limits;
    limits.subgroup_size = 32;
    limits.cores = 96;
    const auto preferred = [&](const program::MatmulShape& shape) {
        return program::matmul_candidates(limits, shape).front()->name;
    };
    CHECK(preferred({1, 1, 768, 768}) == "vector.r1");
    CHECK(preferred({1, 2, 768, 768}) == "vector.r2");
    CHECK(preferred({12, 3, 768, 768}) == "vector.r4");
    CHECK(preferred({1, 5, 768, 768}) == "tiled.t32x64");
    CHECK(preferred({1, 16384, 3072, 768}) == "tiled.t128");
    CHECK(preferred({1, 768, 768, 16384}) == "tiled.t128"); // K is split
    CHECK(preferred({1, 1024, 768, 384}) == "tiled.t128x64");
    CHECK(preferred({1, 4096, 20, 64}) == "tiled.t128x32");
    CHECK(preferred({1, 256, 768, 768}) == "tiled.t64");
    CHECK(preferred({.m = 1, .n = 8, .k = 8, .leading = int64_t{1} << 22}).starts_with("direct."));
    limits.max_group_invocations = 128;
    CHECK(preferred({1, 16384, 3072, 768}) == "tiled.t128x64");
    // Matrix units, for the storage that they have.
    limits.max_group_invocations = 1024;
    limits.shared_memory = 32768;
    limits.matrix_bf16 = {16, 16, 16};
    const auto halves = [](int64_t m, int64_t n, int64_t k, program::Storage storage) {
        return program::MatmulShape{.m = m, .n = n, .k = k, .factors = storage};
    };
    CHECK(preferred(halves(16384, 3072, 768, program::Storage::bf16)) == "matrix.t128"); // 32 KiB of shared memory
    limits.large_register_file = false;
    CHECK(preferred(halves(16384, 3072, 768, program::Storage::bf16)) == "matrix.t64");
    limits.large_register_file = true;
    CHECK(preferred(halves(256, 768, 768, program::Storage::bf16)) == "matrix.t64");
    CHECK(preferred(halves(1, 768, 768, program::Storage::bf16)) == "vector.r1");
    CHECK(preferred(halves(16384, 3072, 768, program::Storage::f16)) == "tiled.t128");
}

TEST_CASE("matmul: a GPU splits K as far as that fills its cores and pays for a second pass") {
    program::Limits limits;
    limits.subgroup_size = 32;
    limits.cores = 96;
    const auto splits = [&](const char* kernel, int64_t tiles, int64_t k) {
        return program::gpu_splits(limits, *program::find_matmul_kernel(kernel), tiles, k);
    };
    CHECK(splits("tiled.t128", 1000, 768) == 1);
    CHECK(splits("tiled.t128", 192, 16384) == 1);
    CHECK(splits("tiled.t128", 36, 16384) == 5);
    CHECK(splits("tiled.t128", 144, 16384) == 4);
    CHECK(splits("tiled.t64", 4, 255) == 1);
    CHECK(splits("tiled.t64", 4, 768) == 3);
    CHECK(splits("vector.r1", 48, 3072) == 1);
    CHECK(splits("vector.r4", 1, 60'001) > 4);
    limits.cores = 8;
    CHECK(splits("tiled.t128", 32, 16384) == 1);
    // Columns per workgroup.
    limits.cores = 96;
    const program::MatmulKernel& vector = *program::find_matmul_kernel("vector.r1");
    CHECK(program::vector_columns(limits, vector, {1, 1, 50257, 768, false, true}) == 16);
    CHECK(program::vector_columns(limits, vector, {1, 1, 768, 768, false, true}) == 4);
    CHECK(program::vector_columns(limits, vector, {1, 1, 768, 768, false}) == 8);
    CHECK(program::vector_columns(limits, vector, {1, 1, 768, 20, false}) == 64);
}

TEST_CASE("matmul: K is split for the tiles of a last round alone, if that is faster") {
    program::Limits limits;
    limits.subgroup_size = 32;
    limits.cores = 64; // 128 tiles at a time
    const auto cut = [&](int64_t m, int64_t n, int64_t k) {
        return program::gpu_cut(limits, *program::find_matmul_kernel("tiled.t128"), m, n, k);
    };
    CHECK(cut(768, 3072, 8192).columns);
    CHECK(cut(768, 3072, 8192).length == 21 * 128);
    CHECK(!cut(3072, 768, 8192).columns);
    CHECK(cut(3072, 768, 8192).length == 21 * 128);
    CHECK(cut(768, 2304, 8192).length == 0);  // 108 tiles
    CHECK(cut(768, 768, 8192).length == 0);   // all tiles are split
    CHECK(cut(8192, 3072, 768).length == 0);  // 1,536 tiles
    CHECK(cut(8192, 50257, 768).length == 0); // a last round of many costs little

    // The weight's and the bias's gradient of a linear with 129 tiles.
    GpuKernelsBench bench;
    if (bench->limits().cores != 64) {
        MESSAGE("skipped: this device has ", bench->limits().cores, " cores, for which the tiles are others");
        return;
    }
    for (const bool columns : {false, true}) {
        CAPTURE(columns);
        const int64_t k = 520, m = columns ? 257 : 5499, n = columns ? 5499 : 257;
        Builder b;
        const ValueId x = b(Op::mul, {b.input("x", Kind::float_, {k, m}), b.scalar(1.5)});
        const ValueId dy = b(Op::mul, {b.input("dy", Kind::float_, {k, n}), b.scalar(0.5)});
        b.output("dw", b(Op::matmul, {x, dy}, {{"transpose_a", int64_t{1}}}));
        b.output("db", b(Op::sum, {dy}, {{"axes", std::vector<int64_t>{0}}}));
        const Graph graph = finished(std::move(b));
        const auto lowered = program::lower(graph, bench->limits(), {.outputs = {"dw", "db"}});
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        const auto of = [&](std::string_view kernel) {
            return std::ranges::count_if(lowered.value().dispatches, [&](const program::Dispatch& dispatch) {
                return dispatch.shader.starts_with(kernel);
            });
        };
        CHECK(of("matmul/tiled") == 2);
        CHECK(of("matmul/split_sum") == 1);
        CHECK(of("reduce") == (columns ? 1 : 0)); // parts of the bias's gradient
        check_kernel(bench, graph, kTolerance);
    }
}

TEST_CASE("matmul: with equal_rows a row has the same bits in every place") {
    GpuKernelsBench bench;
    const int64_t m = 5499, k = 520, n = 257; // 129 tiles on 64 cores
    Builder b;
    b.output("y", b(Op::matmul, {b.input("x", Kind::float_, {m, k}), b.input("w", Kind::float_, {k, n})}));
    const Graph graph = finished(std::move(b));
    Random random(1);
    graph::Feeds feeds = kernel_feeds(graph, random);
    graph::Tensor& x = feeds.fields.at("x");
    for (std::size_t i = static_cast<std::size_t>(k); i < x.data.size(); ++i)
        x.data[i] = x.data[i - static_cast<std::size_t>(k)]; // all rows are the first
    // Returns the number of rows that differ from the first.
    const auto others = [&](bool equal_rows) {
        RunOptions options;
        options.compile.equal_rows = equal_rows;
        const graph::Tensor y = run_on_device(*bench, graph, feeds, options).at("y");
        int64_t different = 0;
        for (int64_t row = 1; row < m; ++row)
            different += std::equal(y.data.begin(), y.data.begin() + n, y.data.begin() + row * n) ? 0 : 1;
        return different;
    };
    CHECK(others(true) == 0);
    if (bench->limits().cores == 64) CHECK(others(false) > 0); // the product is two, K is split for the last rows alone
}

} // namespace matmul_test
