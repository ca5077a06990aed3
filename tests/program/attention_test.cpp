// attention with each of its options, forward and backward: the device against the interpreter.
#include "program/kernel_case.hpp"
#include "program/lowering/half.hpp"
#include "program/runtime.hpp"

namespace attention_test {

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr double kTolerance = 1e-5;

struct Case {
    int64_t batch = 2, heads = 2, key_heads = 2, queries = 11, keys = 11, width = 8, value_width = 8;
    bool causal = false, key_padding = false, query_padding = false, mask = false, bias = false, distance_bias = false;
    bool query_distance = false, key_distance = false, query_class = false, groups = false, prefix = false,
         positions = false, hidden_rows = false, sinks = false;
    int64_t window = 0, window_after = 0, empty_row = 0;
    double dropout = 0, softcap = 0;
    bool mask_of_heads = false; // the mask is [1, heads, queries, keys]
    bool halves = false;        // q, k, v and dy may be stored in 16 bits
};

Graph attention_graph(const Case& c) {
    Builder b;
    const ValueId q = b.parameter("q", {c.batch, c.heads, c.queries, c.width}, 0, 0, 0, 0);
    const ValueId k = b.parameter("k", {c.batch, c.key_heads, c.keys, c.width}, 0, 0, 0, 0);
    const ValueId v = b.parameter("v", {c.batch, c.key_heads, c.keys, c.value_width}, 0, 0, 0, 0);
    const auto stored = [&](ValueId x) { return c.halves ? b(Op::mul, {x, b.scalar(1.0)}) : x; };
    const auto parameter = [&](bool on, const char* name, const Shape& shape) {
        return on ? b.parameter(name, shape, 0, 0, 0, 0) : graph::kNone;
    };
    const auto input = [&](bool on, const char* name, const Shape& shape) {
        return on ? b.input(name, Kind::int32, shape) : graph::kNone;
    };
    ValueId bias = parameter(c.bias, "bias", {1, c.heads, c.queries, c.keys});
    if (c.hidden_rows) {
        const ValueId row = b.input("open_row", Kind::int32, {1, c.heads, c.queries, 1});
        bias = b(Op::where, {row, bias, b.fill(b.kind(bias), Shape{}, -1e30)});
    }
    const ValueId inputs[] = {
        stored(q),
        stored(k),
        stored(v),
        bias,
        parameter(c.distance_bias, "distance_bias", {c.heads, 4}),
        parameter(c.query_distance, "query_distance", {c.batch, c.heads, c.queries, 4}),
        parameter(c.key_distance, "key_distance", {c.batch, c.heads, c.keys, 3}),
        parameter(c.query_class, "query_class", {c.batch, c.heads, c.queries, 2}),
        input(c.query_class, "q_class", {c.batch, c.queries}),
        input(c.query_class, "k_class", {c.batch, c.keys}),
        input(c.key_padding, "key_padding", {c.batch, c.keys}),
        input(c.query_padding, "query_padding", {c.batch, c.queries}),
        input(c.mask, "mask",
              c.mask_of_heads ? Shape{1, c.heads, c.queries, c.keys} : Shape{c.batch, 1, c.queries, c.keys}),
        input(c.groups, "q_group", {c.batch, c.queries}),
        input(c.groups, "k_group", {c.batch, c.keys}),
        input(c.positions, "q_position", {c.batch, c.queries}),
        input(c.positions, "k_position", {c.batch, c.keys}),
        input(c.prefix, "prefix", {c.batch}),
        parameter(c.sinks, "sinks", {c.heads})};
    const graph::NamedAttribute attributes[] = {{"causal", int64_t{c.causal}},
                                                {"window", c.window},
                                                {"window_after", c.window_after},
                                                {"softcap", c.softcap},
                                                {"empty_row", c.empty_row},
                                                {"dropout", c.dropout},
                                                {"stream", int64_t{5}},
                                                {"distance_first", int64_t{-2}},
                                                {"distance_table", std::vector<int64_t>{3, 1, 0, 2, 1}},
                                                {"key_distance_first", int64_t{-1}},
                                                {"key_distance_table", std::vector<int64_t>{2, 0, 1}}};
    const auto outputs = b.emit(Op::attention, inputs, attributes);
    REQUIRE_MESSAGE(b.ok(), b.status().message());
    return with_gradients(std::move(b), outputs[0]);
}

const std::map<std::string, int64_t> kMost = {{"key_padding", 2}, {"query_padding", 2}, {"mask", 2},    {"open_row", 2},
                                              {"q_class", 2},     {"k_class", 2},       {"q_group", 2}, {"k_group", 2},
                                              {"q_position", 9},  {"k_position", 9},    {"prefix", 5}};

void check_attention(Bench& bench, const Case& c) { check_kernel(bench, attention_graph(c), kTolerance, kMost); }

// The same with q, k, v and dy stored in 16 bits, on values that 16 bits can express. Kernels for matrix units also
// round probabilities and their gradients. form: "matrix+short" and the like, in passes that have it. Returns their
// number.
int check_halves(Bench& bench, Case c, program::Storage storage, const std::string& form = {}) {
    c.halves = true;
    const Graph graph = attention_graph(c);
    Random random(2);
    graph::Feeds feeds = kernel_feeds(graph, random, kMost);
    for (auto* tensors : {&feeds.parameters, &feeds.fields})
        for (auto& [name, tensor] : *tensors)
            if (graph::is_float(tensor.kind))
                for (double& x : tensor.data)
                    x = static_cast<double>(
                        program::from_half(storage, program::to_half(storage, static_cast<float>(x))));
    RunOptions options;
    options.compile.precision = storage;
    if (!form.empty()) {
        const auto lowered = program::lower(graph, bench->limits(), options.compile);
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        for (const program::KernelProblem& problem : lowered.value().problems)
            for (const std::string& name : problem.forms)
                if (name == form) options.compile.kernel_choices[problem.key] = name;
        if (options.compile.kernel_choices.empty()) return 0;
    }
    const Outcome got = run_on_device(*bench, graph, feeds, options);
    Outcome expected = run_in_interpreter(graph, feeds);
    std::erase_if(expected, [](const auto& output) { return output.first.starts_with("loss"); });
    std::string where;
    const double error = worst_error(got, expected, &where);
    CHECK_MESSAGE(error <= (storage == program::Storage::f16 ? 0x1p-9 : 0x1p-6), "error " << error << " at " << where);
    options.runs = 2;
    CHECK_MESSAGE(same_bits(got, run_on_device(*bench, graph, feeds, options)), "two runs differ");
    return static_cast<int>(options.compile.kernel_choices.size());
}

} // namespace

TEST_CASE("attention: sizes of heads, queries and keys") {
    Bench bench;
    check_attention(bench, {});
    check_attention(bench, {.queries = 1, .keys = 1});
    check_attention(bench, {.queries = 5, .keys = 13});
    check_attention(bench, {.queries = 20, .keys = 3, .width = 5, .value_width = 7});
    check_attention(bench, {.width = 1, .value_width = 1});
    if (instrumented()) return; // drivers take minutes to compile an instrumented kernel of wide heads
    check_attention(bench, {.queries = 17, .keys = 17, .width = 32, .value_width = 32, .causal = true});
    check_attention(bench, {.queries = 9, .keys = 10, .width = 64, .value_width = 48});
    check_attention(
        bench, {.batch = 1, .heads = 1, .key_heads = 1, .queries = 9, .keys = 10, .width = 96, .value_width = 128});
}

TEST_CASE("attention: causal, grouped queries, cross attention") {
    Bench bench;
    check_attention(bench, {.queries = 16, .keys = 16, .causal = true});
    check_attention(bench, {.queries = 19, .keys = 9, .causal = true});
    check_attention(bench, {.queries = 9, .keys = 19, .causal = true});
    check_attention(bench, {.heads = 6, .key_heads = 2, .causal = true});
    check_attention(bench, {.heads = 4, .key_heads = 1, .queries = 5, .keys = 13});
}

TEST_CASE("attention: paddings and masks, rows without allowed keys") {
    Bench bench;
    for (const int64_t empty : {0, 1}) {
        check_attention(bench, {.key_padding = true, .empty_row = empty});
        check_attention(bench, {.causal = true, .key_padding = true, .empty_row = empty});
        check_attention(bench, {.query_padding = true, .empty_row = empty});
        check_attention(bench, {.mask = true, .empty_row = empty});
        check_attention(bench, {.queries = 3, .keys = 2, .mask = true, .empty_row = empty});
        check_attention(bench, {.groups = true, .empty_row = empty});
    }
    check_attention(bench, {.queries = 37, .keys = 97, .mask = true, .mask_of_heads = true});
    check_attention(bench, {.heads = 4, .queries = 70, .keys = 64, .causal = true, .mask = true});
}

TEST_CASE("attention: a mask is packed once, for all attentions and their gradients") {
    Bench bench;
    Builder b;
    const ValueId x = b.parameter("x", {1, 2, 5, 8}, 0, 0, 0, 0);
    std::vector<ValueId> inputs(18, graph::kNone);
    inputs[12] = b.input("mask", Kind::int32, {1, 1, 5, 5});
    ValueId y = x;
    for (int layer = 0; layer < 2; ++layer) {
        inputs[0] = inputs[1] = inputs[2] = y;
        y = b.emit(Op::attention, inputs, {})[0];
    }
    const Graph graph = with_gradients(std::move(b), y);
    const auto lowered = program::lower(graph, bench->limits(), {});
    REQUIRE_MESSAGE(lowered.ok(), lowered.message());
    const auto& dispatches = lowered.value().dispatches;
    CHECK(std::ranges::count(dispatches, "attention/pack_mask", &program::Dispatch::shader) == 1);
    check_kernel(bench, graph, kTolerance, kMost);
}

// Compares with the interpreter, and returns whether the forward pass splits the keys.
bool is_split(Bench& bench, const Case& c) {
    check_attention(bench, c);
    const auto lowered = program::lower(attention_graph(c), bench->limits(), {});
    REQUIRE_MESSAGE(lowered.ok(), lowered.message());
    return std::ranges::any_of(lowered.value().dispatches, [](const program::Dispatch& dispatch) {
        return dispatch.shader.starts_with("attention/forward_sum");
    });
}

TEST_CASE("attention: GPUs split the keys of few queries") {
    GpuKernelsBench bench;
    CHECK(is_split(bench, {.batch = 1, .key_heads = 1, .queries = 37, .keys = 605, .width = 20, .value_width = 12}));
    CHECK(is_split(bench, {.batch = 1, .queries = 5, .keys = 514, .key_padding = true, .mask = true, .empty_row = 0}));
    CHECK(is_split(bench,
                   {.batch = 1, .queries = 5, .keys = 770, .query_padding = true, .empty_row = 1, .dropout = 0.2}));
    CHECK(is_split(bench, {.batch = 1, .heads = 1, .key_heads = 1, .queries = 530, .keys = 540, .causal = true}));
    CHECK_FALSE(is_split(bench, {.batch = 1, .queries = 37, .keys = 605, .causal = true}));
    CHECK(is_split(bench, {.batch = 1, .queries = 37, .keys = 605, .mask = true, .sinks = true, .softcap = 0.4}));
    CHECK_FALSE(is_split(bench, {.batch = 1, .queries = 5, .keys = 605, .window = 40}));
    CHECK_FALSE(is_split(bench, {.batch = 1, .queries = 5, .keys = 605, .window_after = 40}));
    CHECK_FALSE(is_split(bench, {.batch = 1, .queries = 5, .keys = 500}));
}

TEST_CASE("attention: biases and their gradients") {
    Bench bench;
    check_attention(bench, {.bias = true});
    check_attention(bench, {.causal = true, .bias = true});
    check_attention(bench, {.distance_bias = true});
    check_attention(bench, {.causal = true, .distance_bias = true});
    check_attention(bench, {.query_distance = true, .key_distance = true});
    check_attention(bench, {.causal = true, .distance_bias = true, .query_distance = true});
    check_attention(bench, {.query_class = true});
}

TEST_CASE("attention: rows whose bias hides all keys weigh them equally, forward and backward") {
    Bench bench;
    check_attention(bench, {.bias = true, .hidden_rows = true});
    check_attention(bench, {.queries = 19, .keys = 40, .bias = true, .query_class = true, .hidden_rows = true});
}

TEST_CASE("attention: windows, prefixes, positions") {
    Bench bench;
    check_attention(bench, {.queries = 30, .keys = 30, .causal = true, .window = 4});
    check_attention(bench, {.queries = 30, .keys = 30, .window = 7});
    check_attention(bench, {.causal = true, .prefix = true});
    check_attention(bench, {.causal = true, .positions = true});
    check_attention(bench, {.causal = true, .distance_bias = true, .positions = true, .window = 3});
}

// Alone, and with what uses the same numbers of a kernel.
TEST_CASE("attention: capped scores, sinks and windows on both sides") {
    Bench bench;
    check_attention(bench, {.softcap = 0.4});
    check_attention(bench, {.queries = 19, .keys = 13, .width = 5, .value_width = 7, .causal = true, .softcap = 0.4});
    check_attention(bench, {.bias = true, .distance_bias = true, .query_class = true, .softcap = 0.3});
    check_attention(bench, {.query_distance = true, .key_distance = true, .dropout = 0.2, .softcap = 0.3});
    check_attention(bench, {.sinks = true});
    check_attention(bench, {.heads = 4, .key_heads = 2, .queries = 37, .causal = true, .sinks = true, .dropout = 0.3});
    check_attention(bench, {.mask = true, .sinks = true}); // the sink alone, in some rows
    check_attention(bench, {.queries = 30, .keys = 30, .window = 4, .window_after = 4});
    check_attention(bench, {.queries = 30, .keys = 30, .sinks = true, .window = 3, .window_after = 9, .softcap = 0.5});
    check_attention(bench, {.queries = 20, .keys = 27, .window_after = 5});
    check_attention(bench, {.queries = 27, .keys = 20, .window_after = 1});
    check_attention(bench, {.causal = true, .prefix = true, .window_after = 2});
    check_attention(bench, {.positions = true, .window = 3, .window_after = 3});
    check_attention(bench, {.bias = true, .window = 2, .window_after = 2});
}

TEST_CASE("attention: many rows, of which CPUs give two to a lane") {
    Bench bench;
    const Case many{.batch = 8, .heads = 4, .queries = 35, .keys = 41, .width = 6, .value_width = 4};
    const auto check = [&](auto&& change) {
        Case c = many;
        change(c);
        check_attention(bench, c);
    };
    check([](Case&) {});
    check([](Case& c) { c.causal = true, c.dropout = 0.2; });
    check([](Case& c) { c.mask = true, c.empty_row = 1; });
    check([](Case& c) { c.bias = true, c.window = 7; });
    check([](Case& c) { c.sinks = true, c.softcap = 0.4, c.window = 7, c.window_after = 4; });
    check([](Case& c) { c.queries = 64, c.keys = 3, c.width = 5, c.value_width = 7; });
}

// Kernels for GPUs process blocks of up to 64 rows and 128 rows of the other side.
TEST_CASE("attention: rows of several segments, in whose kernels blocks of others are skipped") {
    program::RuntimeOptions as_gpu;
    as_gpu.kernels_of_gpus = true;
    gpu::CapabilityOverrides of_gpu;
    of_gpu.disable = {"uniform_loads"};
    for (const bool gpu : {false, true}) {
        Bench bench = gpu ? Bench(as_gpu, of_gpu) : Bench();
        for (const int64_t window : {0, 21}) {
            const Case c{.heads = 4,
                         .key_heads = 2,
                         .queries = 150,
                         .keys = 150,
                         .causal = true,
                         .groups = true,
                         .window = window,
                         .empty_row = 1,
                         .dropout = window > 0 ? 0.2 : 0.0};
            const Graph graph = attention_graph(c);
            Random random(3);
            graph::Feeds feeds = kernel_feeds(graph, random, kMost);
            const std::vector<std::vector<int64_t>> ends{{40, 41, 43, 99, 130}, {7, 140, 150}}; // then padding
            std::vector<double> groups;
            for (const std::vector<int64_t>& row : ends)
                for (int64_t token = 0; token < c.queries; ++token) {
                    const auto end = std::ranges::upper_bound(row, token);
                    groups.push_back(end != row.end() ? static_cast<double>(end - row.begin() + 1) : 0.0);
                }
            feeds.fields.at("q_group").data = feeds.fields.at("k_group").data = groups;
            std::string where;
            const double error =
                worst_error(run_on_device(*bench, graph, feeds, {}), run_in_interpreter(graph, feeds), &where);
            CHECK_MESSAGE(error <= kTolerance, "error " << error << " at " << where);
        }
    }
}

TEST_CASE("attention: several blocks of queries and keys") {
    Bench bench;
    check_attention(bench, {.batch = 1, .queries = 131, .keys = 197, .width = 20, .value_width = 12});
    check_attention(bench, {.batch = 1, .queries = 150, .keys = 150, .causal = true, .dropout = 0.2});
    check_attention(bench, {.batch = 1, .queries = 129, .keys = 140, .width = 4, .causal = true, .window = 70});
    check_attention(bench, {.batch = 1, .queries = 140, .keys = 129, .window = 40, .empty_row = 1});
    check_attention(bench, {.batch = 1, .queries = 210, .keys = 210, .window = 20, .window_after = 20, .softcap = 0.4});
    check_attention(bench, {.batch = 1, .queries = 150, .keys = 190, .causal = true, .sinks = true, .softcap = 0.4});
    check_attention(bench, {.batch = 1, .queries = 131, .keys = 70, .sinks = true, .window_after = 33, .dropout = 0.2});
    check_attention(bench, {.batch = 1, .queries = 170, .keys = 70, .window = 30, .window_after = 7}); // empty rows
    check_attention(bench,
                    {.batch = 1, .heads = 4, .queries = 65, .keys = 129, .width = 5, .mask = true, .empty_row = 0});
    check_attention(bench, {.batch = 1, .queries = 67, .keys = 133, .query_distance = true, .key_distance = true});
    check_attention(bench, {.batch = 1,
                            .queries = 70,
                            .keys = 133,
                            .causal = true,
                            .bias = true,
                            .distance_bias = true,
                            .query_class = true});
    check_attention(bench, {.batch = 1, .queries = 80, .keys = 100, .causal = true, .prefix = true, .positions = true});
}

TEST_CASE("attention: the variants for GPUs, with few registers and small workgroups") {
    program::RuntimeOptions as_gpu;
    as_gpu.kernels_of_gpus = true;
    gpu::CapabilityOverrides any, few_registers, few_invocations;
    any.disable = {"uniform_loads"}; // whose kernels would be preferred
    few_registers.disable = {"uniform_loads", "many_registers"};
    few_invocations.disable = {"uniform_loads"};
    few_invocations.max_workgroup_invocations = 128;
    for (const gpu::CapabilityOverrides& overrides : {any, few_registers, few_invocations}) {
        Bench bench(as_gpu, overrides);
        check_attention(bench, {.batch = 1, .queries = 70, .keys = 75, .width = 64, .value_width = 64, .causal = true});
        check_attention(bench, {.batch = 1, .queries = 33, .keys = 140, .width = 5, .value_width = 90, .dropout = 0.2});
        check_attention(bench, {.batch = 1,
                                .queries = 70,
                                .keys = 75,
                                .width = 12,
                                .value_width = 8,
                                .key_distance = true,
                                .sinks = true,
                                .window = 30,
                                .window_after = 20,
                                .softcap = 0.4});
    }
}

TEST_CASE("attention: widths of heads up to 256, even and odd") {
    if (instrumented()) return; // as above
    Bench bench;
    for (const auto& [width, value_width] :
         {std::pair<int64_t, int64_t>{80, 80}, {128, 128}, {132, 64}, {256, 256}, {33, 65}, {97, 131}, {8, 200}})
        check_attention(bench, {.batch = 1,
                                .key_heads = 1,
                                .queries = 37,
                                .keys = 70,
                                .width = width,
                                .value_width = value_width,
                                .causal = true});
    check_attention(bench, {.batch = 1, .queries = 40, .keys = 70, .width = 160, .value_width = 160, .dropout = 0.3});
    check_attention(bench, {.batch = 1,
                            .key_heads = 1,
                            .queries = 37,
                            .keys = 70,
                            .width = 256,
                            .value_width = 256,
                            .causal = true,
                            .sinks = true,
                            .window = 9,
                            .softcap = 0.4});
}

TEST_CASE("attention: q, k and v as views of one tensor, at offsets that are multiples of 4 or not") {
    Bench bench;
    constexpr int64_t kBatch = 2, kRows = 70, kHeads = 2, kWidth = 8;
    for (const int64_t before : {0, 1, 2, 4}) {
        Builder b;
        const ValueId all = b.parameter("all", {kBatch, kRows, before + 3 * kHeads * kWidth}, 0, 0, 0, 0);
        const auto part = [&](int64_t which) {
            const ValueId columns =
                b(Op::slice, {all},
                  {{"axis", int64_t{2}}, {"start", before + which * kHeads * kWidth}, {"length", kHeads * kWidth}});
            const ValueId split =
                b(Op::reshape, {columns}, {{"shape", std::vector<int64_t>{kBatch, kRows, kHeads, kWidth}}});
            return b(Op::transpose, {split}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
        };
        std::vector<ValueId> inputs(18, graph::kNone);
        for (int64_t which = 0; which < 3; ++which) inputs[static_cast<std::size_t>(which)] = part(which);
        const graph::NamedAttribute attributes[] = {{"causal", int64_t{1}}};
        const auto outputs = b.emit(Op::attention, inputs, attributes);
        REQUIRE_MESSAGE(b.ok(), b.status().message());
        check_kernel(bench, with_gradients(std::move(b), outputs[0]), kTolerance);
    }
}

TEST_CASE("attention: dropout equals the interpreter's") {
    Bench bench;
    check_attention(bench, {.dropout = 0.3});
    check_attention(bench, {.queries = 12, .keys = 12, .causal = true, .dropout = 0.1});
    check_attention(bench, {.heads = 4, .key_heads = 2, .mask = true, .dropout = 0.5});
}

namespace {

// Returns what makes a device one with or without VK_NV_cooperative_matrix2.
gpu::CapabilityOverrides with_elements(bool elements) {
    gpu::CapabilityOverrides overrides;
    if (!elements) overrides.disable = {"cooperative_matrix_elements"};
    return overrides;
}

void check_16_bits(Bench& bench, bool elements) {
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16}) {
        if (elements && !bench->limits().matrix_unit(storage)) continue; // as without elements
        if (!bench->limits().matrix_unit(storage))
            MESSAGE("no matrix units for ", std::string(program::storage_name(storage)));
        CAPTURE(program::storage_name(storage));
        // Without matrix units both storages have the same kernels, which the tests of float32 check with all options.
        const bool all = bench->limits().matrix_unit(storage) || storage == program::Storage::bf16;
        const auto check = [&](const Case& c) {
            if (all || c.queries < 20) check_halves(bench, c, storage);
        };
        check({});
        check({.queries = 1, .keys = 1});
        check({.queries = 5, .keys = 13, .width = 6, .value_width = 10});
        check({.queries = 40, .keys = 70, .width = 24, .value_width = 40});
        check({.batch = 1, .queries = 150, .keys = 150, .width = 64, .value_width = 64, .causal = true});
        check({.batch = 1, .heads = 6, .queries = 141, .keys = 141, .width = 16, .value_width = 16, .causal = true});
        check({.heads = 4, .key_heads = 1, .queries = 70, .keys = 75, .causal = true, .dropout = 0.2});
        check({.batch = 1, .queries = 35, .keys = 33, .width = 128, .value_width = 112});
        check({.batch = 1, .queries = 35, .keys = 605, .mask = true}); // GPUs split the keys
        check({.queries = 41, .keys = 45, .dropout = 0.3});
        check({.queries = 40, .keys = 129, .key_padding = true, .query_padding = true, .empty_row = 1});
        check({.queries = 20, .keys = 2, .mask = true});
        check({.queries = 20, .keys = 5, .mask = true, .empty_row = 1});
        check({.queries = 33, .keys = 34, .groups = true});
        check({.causal = true, .bias = true, .hidden_rows = true});
        check({.batch = 1, .queries = 131, .keys = 120, .bias = true, .dropout = 0.1});
        check({.distance_bias = true, .query_class = true});
        check({.query_distance = true, .key_distance = true});
        check({.batch = 1, .queries = 130, .keys = 130, .causal = true, .window = 20});
        check({.batch = 1, .queries = 131, .keys = 100, .window = 37});
        check({.batch = 1, .queries = 100, .keys = 131, .causal = true, .window = 3, .empty_row = 1});
        check({.causal = true, .prefix = true, .positions = true});
        check({.batch = 1, .queries = 131, .keys = 131, .causal = true, .softcap = 0.5});
        check({.queries = 40, .keys = 70, .width = 24, .value_width = 40, .dropout = 0.2, .softcap = 0.5});
        check({.bias = true, .softcap = 0.5});
        check({.batch = 1, .heads = 4, .key_heads = 2, .queries = 70, .keys = 75, .mask = true, .sinks = true});
        check({.batch = 1, .queries = 131, .keys = 131, .window = 20, .window_after = 20});
        check({.batch = 1, .queries = 35, .keys = 605, .sinks = true, .softcap = 0.5}); // GPUs split the keys
    }
}

void check_rising_scores(Bench& bench) {
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16}) {
        if (!bench->limits().matrix_unit(storage)) continue;
        constexpr int64_t kRows = 150, kWidth = 40; // sums of 32 columns and of 8
        Builder b;
        const auto rows = [&](const char* name) {
            return b(Op::mul, {b.input(name, Kind::float_, {1, 1, kRows, kWidth}), b.scalar(1.0)});
        };
        std::vector<ValueId> inputs(18, graph::kNone);
        inputs[0] = rows("q"), inputs[1] = rows("k"), inputs[2] = rows("v");
        b.output("y", b.emit(Op::attention, inputs, {})[0]);
        const Graph graph = finished(std::move(b));
        graph::Feeds feeds;
        Random random(3);
        feeds = kernel_feeds(graph, random);
        for (int64_t t = 0; t < kRows; ++t)
            for (int64_t d = 0; d < kWidth; ++d) {
                const auto at = static_cast<std::size_t>(t * kWidth + d);
                feeds.fields.at("q").data[at] = t % 3 == 0 ? 1 : t % 3 == 1 ? -1 : 0.25;
                feeds.fields.at("k").data[at] = static_cast<double>(t / 16) * 0.5; // 3 of a score's unit per block
                double& v = feeds.fields.at("v").data[at];
                v = static_cast<double>(program::from_half(storage, program::to_half(storage, static_cast<float>(v))));
            }
        RunOptions options;
        options.compile.precision = storage;
        std::string where;
        const double error =
            worst_error(run_on_device(*bench, graph, feeds, options), run_in_interpreter(graph, feeds), &where);
        CHECK_MESSAGE(error <= (storage == program::Storage::f16 ? 0x1p-10 : 0x1p-7),
                      "error " << error << " at " << where);
    }
}

} // namespace

TEST_CASE("attention: tensors stored in 16 bits, and matrix units where the device has them") {
    if (instrumented()) return;
    for (const bool elements : {false, true}) {
        Bench bench({}, with_elements(elements));
        if (!bench->limits().storage16) return;
        if (elements && !bench->limits().matrix_elements) {
            MESSAGE("no matrix units with VK_NV_cooperative_matrix2");
            return;
        }
        CAPTURE(elements);
        check_16_bits(bench, elements);
    }
}

TEST_CASE("attention: the forms of matrix kernels that the lab compares") {
    if (instrumented()) return;
    Bench bench;
    if (!bench->limits().matrix_unit(program::Storage::f16) || !bench->limits().matrix_elements) {
        MESSAGE("no matrix units with VK_NV_cooperative_matrix2");
        return;
    }
    for (const std::string base : {"matrix", "matrix.elements"})
        for (const char* form : {"+exponential", "+conversion", "+whole", "+short", "+64keys", "+32rows"}) {
            const std::string name = base + form;
            CAPTURE(name);
            int kernels = 0;
            const auto check = [&](const Case& c) { kernels += check_halves(bench, c, program::Storage::f16, name); };
            check({.batch = 1, .heads = 4, .key_heads = 2, .queries = 141, .keys = 141, .causal = true});
            check({.batch = 1, .queries = 131, .keys = 131, .window = 70, .window_after = 70, .softcap = 0.5});
            check({.batch = 1, .queries = 35, .keys = 605, .key_padding = true, .sinks = true});
            check({.batch = 1, .queries = 70, .keys = 75, .causal = true, .bias = true, .dropout = 0.1});
            // Elements are always converted by the hardware; 32 rows need subgroups as wide, and strips of 64 keys more
            // shared memory than a CPU has.
            const bool absent =
                name == "matrix.elements+conversion" || name == "matrix+64keys" || std::string_view(form) == "+32rows";
            CHECK((kernels > 0 || absent));
        }
}

TEST_CASE("attention: matrix units, where scores rise from block to block") {
    for (const bool elements : {false, true}) {
        Bench bench({}, with_elements(elements));
        if (elements && !bench->limits().matrix_elements) return;
        CAPTURE(elements);
        check_rising_scores(bench);
    }
}

TEST_CASE("attention: which kernels of matrix units are chosen") {
    program::Limits limits;
    limits.shared_memory = 65536;
    limits.subgroup_size = 32;
    limits.storage16 = limits.matrix_elements = true;
    limits.matrix_f16 = {16, 16, 16};
    const Graph graph = attention_graph({.queries = 40, .keys = 40, .width = 64, .value_width = 64, .halves = true});
    program::CompileOptions options;
    options.precision = program::Storage::f16;
    const auto kernels = [&] {
        const auto lowered = program::lower(graph, limits, options);
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        std::set<std::string> names;
        for (const program::Dispatch& dispatch : lowered.value().dispatches)
            if (dispatch.shader.starts_with("attention/")) names.insert(dispatch.shader);
        return names;
    };
    const std::set<std::string> elements = {"attention/matrix_forward.f16_elements",
                                            "attention/matrix_gradient_query.f16_elements",
                                            "attention/matrix_gradient_key.f16_elements"};
    const std::set<std::string> strips = {"attention/matrix_forward.f16", "attention/matrix_gradient_query.f16",
                                          "attention/matrix_gradient_key.f16"};
    CHECK(kernels() == elements);
    limits.matrix_f16 = {16, 16, 8}; // sums are not as high as a factor
    CHECK(kernels() == strips);
    limits.matrix_f16 = {16, 8, 16};
    CHECK(kernels() == elements);
    limits.matrix_elements = false;
    CHECK(kernels() == strips);
}

} // namespace attention_test
