// A plugin's custom operation on the device, against its reference: sizes, storage, accessors, counters, errors.
#include "own_operations.hpp"
#include "program/kernel_case.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"

namespace own_operation_test {

using namespace hekla;
using namespace hekla::test;
using program::Storage;

namespace {

constexpr double kTolerance = 4e-6;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Compiles a graph and expects an error.
std::string refusal(program::Runtime& runtime, const Graph& graph) {
    auto store = program::ParameterStore::create(runtime, program::parameter_table(graph));
    REQUIRE(store.ok());
    const auto program = program::Program::compile(runtime, graph, *store.value(), {.outputs = {"y"}});
    REQUIRE_FALSE(program.ok());
    return program.message();
}

// y = OPERATION(x [elements]), in a scope.
Graph one(const graph::OwnDeclaration& declaration, const Shape& shape, const Shape& out, int64_t invocations) {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, shape);
    b.scope_begin("block.2");
    const ValueId y =
        test::own::emit(b, test::own::made(declaration), {x}, {{{Kind::float_, out}}, invocations, {}})[0];
    b.scope_end();
    b.output("y", y);
    return finished(std::move(b));
}

graph::OwnDeclaration with_glsl(const std::string& glsl, uint32_t local_size = 0) {
    graph::OwnDeclaration d;
    d.name = "acme.one";
    d.inputs = {{"x"}};
    d.outputs = {"y"};
    d.glsl = glsl;
    d.local_size = local_size;
    return d;
}

} // namespace

TEST_CASE("custom operations in the middle of a graph, forward and gradients, at every size") {
    Bench bench;
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{13, 31}, Shape{5, 3, 11}, Shape{2, 513}}) {
        CAPTURE(shape.text());
        Builder b;
        const ValueId x = b.parameter("x", shape, 0, 0, 0, 0), gate = b.parameter("gate", shape, 0, 0, 0, 0);
        const ValueId y = test::own::swish_gate(b, b(Op::tanh, {x}), b(Op::mul, {gate, b.scalar(0.7)}), 1.3);
        const ValueId z = test::own::center(b, b(Op::mul, {y, x}));
        check_kernel(bench, with_gradients(std::move(b), z), shape.elements() == 1 ? 1e-5 : kTolerance);
    }
    for (const int64_t rows : {1, 7, 17, 600}) {
        CAPTURE(rows);
        Builder b;
        const ValueId x = b.parameter("x", {rows, 5}, 0, 0, 0, 0), ids = b.input("ids", Kind::int32, {rows});
        const auto picked = test::own::pick(b, b(Op::sin, {x}), ids, {4, 0, 3}, {0.5, -2.0});
        b.output("column", picked[1]);
        check_kernel(bench, with_gradients(std::move(b), b(Op::exp, {picked[0]})), kTolerance);
    }
}

TEST_CASE("custom operations give the same bits fused or not, serialized, and twice") {
    Bench bench;
    Random random(3);
    Builder b;
    const ValueId x = b.parameter("x", {4, 37}, 0, 0, 0, 0);
    const ValueId y = test::own::swish_gate(b, b(Op::tanh, {x}), b(Op::sin, {b(Op::exp, {x})}));
    const Graph graph = with_gradients(std::move(b), test::own::center(b, b(Op::mul, {y, b(Op::cos, {y})})));
    check_graph(bench, graph, kernel_feeds(graph, random), kTolerance);
}

TEST_CASE("views that are not dense are copied, and empty tensors need no dispatch") {
    Bench bench;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {6, 10}), row = b.input("row", Kind::float_, {1, 6});
    const ValueId turned = b(Op::transpose, {x}, {{"permutation", std::vector<int64_t>{1, 0}}});
    const ValueId wide = b(Op::broadcast, {row}, {{"shape", std::vector<int64_t>{10, 6}}});
    b.output("turned", test::own::swish_gate(b, turned, wide));
    const ValueId part = b(Op::slice, {x}, {{"axis", int64_t{0}}, {"start", int64_t{1}}, {"length", int64_t{3}}});
    b.output("part", test::own::center(b, part));
    const ValueId none = b(Op::slice, {x}, {{"axis", int64_t{0}}, {"start", int64_t{0}}, {"length", int64_t{0}}});
    b.output("none", test::own::swish_gate(b, none, none));
    check_kernel(bench, finished(std::move(b)), kTolerance);

    // An empty input with a non-empty output: loads give 0, sizes are correct.
    Builder e;
    const ValueId given = e(Op::slice, {e.input("x", Kind::float_, {1, 3})},
                            {{"axis", int64_t{0}}, {"start", int64_t{0}}, {"length", int64_t{0}}});
    auto d =
        with_glsl("void operation(uint i) { store_y(i, load_x(7u) + float(x_size + x_rank * 10u + x_dim(1) * 100u + "
                  "x_dim(5) * 1000u + x_dim(99) * 10000u)); }");
    e.output("y", test::own::emit(e, test::own::made(d), {given}, {{{Kind::float_, {2}}}, 2, {}})[0]);
    graph::Feeds feeds;
    feeds.fields["x"] = {Kind::float_, {1, 3}, {5, 6, 7}};
    const Outcome outcome = run_on_device(*bench, finished(std::move(e)), feeds, {});
    CHECK(outcome.at("y").data == std::vector<double>{11320, 11320});
}

TEST_CASE("inputs stored in 16 bits are read directly") {
    Bench bench;
    if (!bench->limits().storage16) return;
    for (const Storage storage : {Storage::f16, Storage::bf16}) {
        Builder b;
        const ValueId x = b.parameter("x", {7, 33}, 0, 0, 0, 0), gate = b.parameter("gate", {7, 33}, 0, 0, 0, 0);
        const ValueId odd = b(Op::slice, {gate}, {{"axis", int64_t{0}}, {"start", int64_t{3}}, {"length", int64_t{1}}});
        b.output("y", test::own::swish_gate(b, x, gate));
        b.output("part", test::own::center(b, odd)); // begins at an odd element
        const Graph graph = finished(std::move(b));
        Random random(5);
        graph::Feeds feeds = kernel_feeds(graph, random);
        auto store = program::ParameterStore::create(*bench, program::parameter_table(graph), {.weights = storage});
        REQUIRE_MESSAGE(store.ok(), store.message());
        for (auto& [name, tensor] : feeds.parameters) {
            REQUIRE(store.value()->find(name)->storage == storage);
            REQUIRE(store.value()->upload(name, std::vector<float>(tensor.data.begin(), tensor.data.end())).ok());
            const auto stored = store.value()->download(name);
            REQUIRE(stored.ok());
            tensor.data.assign(stored.value().begin(), stored.value().end());
        }
        auto program = program::Program::compile(*bench, graph, *store.value(), {.outputs = {"y", "part"}});
        REQUIRE_MESSAGE(program.ok(), program.message());
        REQUIRE(program.value()->run().ok());
        Outcome got;
        for (const char* name : {"y", "part"}) got[name] = to_tensor(program.value()->read_output(name).value());
        CHECK(worst_error(got, run_in_interpreter(graph, feeds)) <= kTolerance);

        // Also a product's result, stored in 16 bits because only the operation reads it.
        Builder p;
        const ValueId a = p.parameter("a", {9, 8}, 0, 0, 0, 0), w = p.parameter("w", {8, 6}, 0, 0, 0, 0);
        const ValueId product = p(Op::matmul, {a, w});
        const Graph trained = with_gradients(std::move(p), test::own::swish_gate(p, product, product));
        graph::Feeds numbers = kernel_feeds(trained, random);
        RunOptions options;
        options.compile.precision = storage;
        const Outcome narrow = run_on_device(*bench, trained, numbers, options);
        const double unit = storage == Storage::f16 ? 0x1p-11 : 0x1p-8;
        CHECK(worst_error(narrow, run_in_interpreter(trained, numbers)) <= 40 * unit);
    }
}

TEST_CASE("accesses outside of a tensor are clamped, and counted on request") {
    Bench bench;
    // Loads x[i + 1]: the last one is outside. Stores y[2 i]: half of them are outside.
    const Graph graph =
        one(with_glsl("void operation(uint i) { if (i % 2u == 1u) store_y(i, 0.0); store_y(2u * i, load_x(i + 1u)); }"),
            {9}, {9}, 9);
    auto store = program::ParameterStore::create(*bench, program::parameter_table(graph));
    REQUIRE(store.ok());
    const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (const bool counted : {false, true}) {
        auto program =
            program::Program::compile(*bench, graph, *store.value(), {.outputs = {"y"}, .count_accesses = counted});
        REQUIRE_MESSAGE(program.ok(), program.message());
        REQUIRE(program.value()->set_input("x", std::as_bytes(std::span(x))).ok());
        for (int run = 0; run < 2; ++run) { // every replay starts counting from 0
            REQUIRE(program.value()->run().ok());
            const auto counts = program.value()->access_counts();
            REQUIRE_MESSAGE(counts.ok(), counts.message());
            if (!counted) {
                CHECK(counts.value().empty());
                continue;
            }
            REQUIRE(counts.value().size() == 1);
            CHECK(counts.value()[0].name == "acme.one in block.2");
            CHECK(counts.value()[0].loads == 1);
            CHECK(counts.value()[0].stores == 4);
        }
        const Status ordered = program.value()->check_ordering();
        CHECK_MESSAGE(ordered.ok(), ordered.message());
        CHECK(program.value()->output_names() == std::vector<std::string>{"y"});
        CHECK(to_tensor(program.value()->read_output("y").value()).data[8] == 6);
    }
    // Correct operations count 0.
    Builder b;
    const ValueId in = b.parameter("x", {5, 7}, 0, 0, 0, 0);
    const Graph good = with_gradients(std::move(b), test::own::center(b, test::own::swish_gate(b, in, in)));
    auto trained = program::ParameterStore::create(*bench, program::parameter_table(good), {.gradients = true});
    auto program =
        program::Program::compile(*bench, good, *trained.value(), {.outputs = {"value"}, .count_accesses = true});
    REQUIRE_MESSAGE(program.ok(), program.message());
    const std::vector<float> zeros(35);
    REQUIRE(program.value()->set_input("coefficients", std::as_bytes(std::span(zeros))).ok());
    REQUIRE(program.value()->run().ok());
    const auto counts = program.value()->access_counts();
    REQUIRE(counts.ok());
    CHECK(counts.value().size() == 3); // center twice, swish_gate once
    for (const auto& count : counts.value()) CHECK((count.loads == 0 && count.stores == 0));
}

TEST_CASE("GLSL that does not compile: the author's lines, the operation and its scope") {
    Bench bench;
    auto d = with_glsl("float half_of(float v) {\n    return v * 0.5;\n}\nvoid operation(uint i) {\n    store_y(i, "
                       "half_off(load_x(i)));\n}\n");
    const std::string plain = refusal(*bench, one(d, {3}, {3}, 3));
    CAPTURE(plain);
    CHECK(contains(plain, "acme.one in block.2"));
    CHECK(contains(plain, "acme.one/1:5: error: 'half_off'"));
    d.glsl_file = "one.cpp";
    d.glsl_line = 40;
    CHECK(contains(refusal(*bench, one(d, {3}, {3}, 3)), "one.cpp:44: error: 'half_off'"));
    d.glsl = "void operate(uint i) {}";
    const std::string without = refusal(*bench, one(d, {3}, {3}, 3));
    CAPTURE(without);
    CHECK(contains(without, "'operation' : no matching overloaded function found"));
}

TEST_CASE("a kernel has one name, independent of the file and line of its source") {
    // An exported graph has neither, and finds its kernels by name.
    Bench bench;
    const auto kernels = [&](const std::string& file, uint32_t line) {
        auto d = with_glsl("void operation(uint i) { store_y(i, 2.0 * load_x(i)); }");
        d.glsl_file = file;
        d.glsl_line = line;
        const Graph graph = one(d, {3}, {3}, 3);
        auto store = program::ParameterStore::create(*bench, program::parameter_table(graph));
        REQUIRE(store.ok());
        const auto program = program::Program::compile(*bench, graph, *store.value(), {.outputs = {"y"}});
        REQUIRE_MESSAGE(program.ok(), program.message());
        return program.value()->dump();
    };
    const std::string plain = kernels("", 0);
    CHECK(contains(plain, "own:acme.one/1:"));
    CHECK(kernels("one.cpp", 40) == plain);
    CHECK(kernels("moved/one.cpp", 7) == plain);
}

TEST_CASE("a workgroup may use the shared memory that every device has, and not a byte more") {
    Bench bench;
    const auto sharing = [](int floats) {
        return with_glsl(fmt::format("struct Pair {{ float a; int b; }};\nshared Pair pairs[16][{}];\n"
                                     "void operation(uint i) {{\n    pairs[i % 16u][0].a = load_x(i);\n    barrier();\n"
                                     "    store_y(i, pairs[i % 16u][0].a);\n}}\n",
                                     floats),
                         32);
    };
    const Graph most = one(sharing(128), {32}, {32}, 32), more = one(sharing(129), {32}, {32}, 32);
    auto store = program::ParameterStore::create(*bench, program::parameter_table(most));
    REQUIRE(store.ok());
    const auto program = program::Program::compile(*bench, most, *store.value(), {.outputs = {"y"}});
    CHECK_MESSAGE(program.ok(), program.message());
    const std::string refused = refusal(*bench, more);
    CAPTURE(refused);
    CHECK(contains(refused, "acme.one in block.2"));
    CHECK(contains(refused, "use 16512 bytes of shared memory; at most 16384"));
}

TEST_CASE("without the run-time compiler there is one clear error, and cached kernels still run") {
    gpu::ContextOptions options;
    options.glsl_module = "/nowhere/libhekla_glsl.so";
    auto context = gpu::create_context(options);
    REQUIRE_MESSAGE(context.ok(), context.message());
    auto runtime = program::Runtime::create(context.take());
    REQUIRE_MESSAGE(runtime.ok(), runtime.message());
    const std::string message =
        refusal(*runtime.value(), one(with_glsl("void operation(uint i) { store_y(i, 1.0); }"), {3}, {3}, 3));
    CAPTURE(message);
    CHECK(contains(message, "acme.one in block.2"));
    CHECK(contains(message, "plugins' own GLSL need it"));
}

TEST_CASE("numbers that kernels cannot represent are rejected") {
    Bench bench;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2, 3}), ids = b.input("ids", Kind::int32, {2});
    const auto made = test::own::emit(b, test::own::made(test::own::pick_declaration()), {x, ids},
                                      {{{Kind::float_, {2}}, {Kind::int32, {2}}}, 2, {}},
                                      {{"table", std::vector<int64_t>{int64_t{1} << 40}}});
    b.output("y", made[0]);
    CHECK(contains(refusal(*bench, finished(std::move(b))), "attribute table is 1099511627776; kernels see 32 bits"));
}

TEST_CASE("SPIR-V reads the argument block that the header specifies, byte by byte") {
    Bench bench;
    // y = x * (scale + table[i mod 2]), and the block's own words for i = 0; written only from operation.h.
    const std::string text = R"(#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Block {
    uint first, end;          // 0, 4
    uint64_t x, y;            // 8, 16
    uint invocations;         // 24
    uint x_elements, x_rank, x_dims[6], y_elements, y_rank, y_dims[6]; // 28, 60
    float scale;              // 92
    uint table_count;         // 96
    int table[2];
};
layout(push_constant) uniform Push { Block block; };
void main() {
    const uint group = block.first + gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
    if (group >= block.end) return;
    const uint i = group * 64u + gl_LocalInvocationID.x;
    if (i >= block.y_elements) return;
    const bool sound = block.x_rank == 2u && block.x_dims[0] == 5u && block.x_dims[1] == 31u && block.x_dims[2] == 1u &&
                       block.y_rank == 2u && block.x_elements == 155u && block.table_count == 2u && block.invocations == 192u;
    Floats(block.y).at[i] = sound ? Floats(block.x).at[i] * (block.scale + float(block.table[i % 2u])) : -1e9;
})";
    auto shader = bench->gpu().glsl->compile("block", text);
    REQUIRE_MESSAGE(shader.ok(), shader.message());
    graph::OwnDeclaration d;
    d.name = "acme.words";
    d.inputs = {{"x"}};
    d.attributes = {{"scale", graph::AttributeType::real, {}}, {"table", graph::AttributeType::ints, {}}};
    d.outputs = {"y"};
    d.local_size = 64;
    d.spirv.assign(shader.value().words().begin(), shader.value().words().end());
    d.reference = [](std::span<const graph::Tensor* const> x, std::span<const graph::Attribute>,
                     std::span<graph::Tensor> y) -> Status {
        for (std::size_t i = 0; i < y[0].data.size(); ++i) y[0].data[i] = x[0]->data[i] * (0.5 + (i % 2 == 0 ? 3 : -2));
        return {};
    };
    const auto graph_of = [](const graph::OwnDeclaration& of) {
        Builder b;
        const ValueId x = b.parameter("x", {5, 31}, 0, 0, 0, 0);
        b.output("y", test::own::emit(b, test::own::made(of), {b(Op::tanh, {x})}, {{{Kind::float_, {5, 31}}}, 192, {}},
                                      {{"scale", 0.5}, {"table", std::vector<int64_t>{3, -2}}})[0]);
        return finished(std::move(b));
    };
    check_kernel(bench, graph_of(d), kTolerance);
    d.local_size = 32;
    CHECK(contains(refusal(*bench, graph_of(d)),
                   "its SPIR-V has a local size of 64 x 1 x 1, its description 32 x 1 x 1"));
    d.spirv.resize(20);
    CHECK(contains(refusal(*bench, graph_of(d)), "SPIR-V module"));
}

TEST_CASE("split dispatches and timed ones have correct names") {
    program::RuntimeOptions options;
    options.budget_seconds = 1e-9;
    Bench bench(options);
    Builder b;
    const ValueId x = b.parameter("x", {40, 700}, 0, 0, 0, 0);
    const Graph graph = with_gradients(std::move(b), test::own::center(b, test::own::swish_gate(b, x, x)));
    check_kernel(bench, graph, kTolerance);

    Bench plain;
    auto store = program::ParameterStore::create(*plain, program::parameter_table(graph), {.gradients = true});
    auto program = program::Program::compile(*plain, graph, *store.value(), {.outputs = {"value"}, .timings = true});
    if (!program.ok() && program.code() == Code::unsupported) return; // no timestamps on this device
    REQUIRE_MESSAGE(program.ok(), program.message());
    CHECK(contains(program.value()->dump(), "acme.center [own:acme.center/1:"));
    const std::vector<float> ones(40 * 700, 1.0f);
    REQUIRE(program.value()->set_input("coefficients", std::as_bytes(std::span(ones))).ok());
    REQUIRE(program.value()->run().ok());
    int seen = 0;
    for (const program::DispatchTiming& timing : program.value()->timings())
        if (timing.name == "acme.center") {
            ++seen;
            CHECK(timing.seconds >= 0);
            CHECK(timing.flops == 3);
        }
    CHECK(seen == 2);
}

} // namespace own_operation_test
