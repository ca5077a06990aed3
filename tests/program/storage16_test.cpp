// 16-bit storage: rounding on host and device, matmul in every layout and kernel, embedding, rejected uses.
#include "graph/passes/join_cross_entropy.hpp"
#include "program/kernel_case.hpp"
#include "program/lowering/half.hpp"
#include "program/lowering/storage16.hpp"
#include "program/parameter_store.hpp"

#include <set>

namespace storage16_test {

using namespace hekla;
using namespace hekla::test;
using program::Storage;

namespace {

double unit(Storage storage) { return storage == Storage::f16 ? 0x1p-11 : 0x1p-8; }

// Returns a product of two parameters, both in 16 bits.
Graph product(const Shape& a, const Shape& b, bool ta, bool tb) {
    Builder builder;
    const ValueId y =
        builder(Op::matmul, {builder.parameter("a", a, 0, 0, 0, 0), builder.parameter("b", b, 0, 0, 0, 0)},
                {{"transpose_a", int64_t{ta}}, {"transpose_b", int64_t{tb}}});
    builder.output("y", y);
    return finished(std::move(builder));
}

// Compares the device, with its parameters (and products) in 16 bits, with the interpreter on the rounded parameters.
void check_halves(Bench& bench, const Graph& graph, Storage storage, bool products, const std::string& choice = {},
                  const std::map<std::string, int64_t>& most = {}) {
    Random random(5);
    graph::Feeds feeds = kernel_feeds(graph, random, most);
    auto store = program::ParameterStore::create(*bench, program::parameter_table(graph), {.weights = storage});
    REQUIRE_MESSAGE(store.ok(), store.message());
    for (auto& [name, tensor] : feeds.parameters) {
        const std::vector<float> values(tensor.data.begin(), tensor.data.end());
        REQUIRE(store.value()->upload(name, values).ok());
        const auto stored = store.value()->download(name);
        REQUIRE(stored.ok());
        const bool halved = store.value()->find(name)->storage == storage;
        for (std::size_t i = 0; i < values.size(); ++i)
            CHECK(stored.value()[i] ==
                  (halved ? program::from_half(storage, program::to_half(storage, values[i])) : values[i]));
        tensor.data.assign(stored.value().begin(), stored.value().end());
    }
    program::CompileOptions options;
    if (products) options.precision = storage;
    for (const auto& [name, value] : graph.outputs) options.outputs.push_back(name);
    auto first = program::Program::compile(*bench, graph, *store.value(), options);
    REQUIRE_MESSAGE(first.ok(), first.message());
    if (!choice.empty()) {
        for (const std::string& line : first.value()->kernel_choices())
            options.kernel_choices[line.substr(0, line.rfind(": "))] = choice;
        first = program::Program::compile(*bench, graph, *store.value(), options);
        REQUIRE_MESSAGE(first.ok(), first.message());
    }
    program::Program& program = *first.value();
    CAPTURE(program.dump());
    for (const auto& [name, tensor] : feeds.fields) REQUIRE(program.set_input(name, to_bytes(tensor)).ok());
    REQUIRE(program.run().ok());
    const Status ordered = program.check_ordering();
    CHECK_MESSAGE(ordered.ok(), ordered.message());
    Outcome got;
    for (const std::string& name : program.output_names()) {
        auto tensor = program.read_output(name);
        REQUIRE(tensor.ok());
        got[name] = to_tensor(tensor.value());
    }
    std::string where;
    const double error = worst_error(got, run_in_interpreter(graph, feeds), &where);
    const double tolerance = products ? unit(storage) : 2e-6;
    CHECK_MESSAGE(error <= tolerance, "error " << error << " at " << where);
}

// Runs with a precision of 16 bits: close to the interpreter, at most `units` roundings of the largest element away;
// not equal; and the same bits without fused kernels.
void check_rounded(Bench& bench, const Graph& graph, const graph::Feeds& feeds, Storage storage, double units) {
    RunOptions options;
    options.compile.precision = storage;
    options.runs = 2;
    const Outcome got = run_on_device(*bench, graph, feeds, options);
    std::string where;
    const double error = worst_error(got, run_in_interpreter(graph, feeds), &where);
    CHECK_MESSAGE(error <= units * unit(storage), "error " << error << " at " << where);
    CHECK_MESSAGE(error > unit(storage) / 64, "nothing was rounded");
    options.runs = 1;
    options.compile.fused = false;
    CHECK(same_bits(got, run_on_device(*bench, graph, feeds, options)));
}

bool has_storage16(Bench& bench) { return bench->limits().storage16; }

} // namespace

TEST_CASE("16-bit floats: every bit pattern round-trips, and rounding is to nearest, ties to even") {
    for (const Storage storage : {Storage::f16, Storage::bf16}) {
        for (uint32_t bits = 0; bits < 0x10000; ++bits) {
            const float x = program::from_half(storage, static_cast<uint16_t>(bits));
            if (std::isnan(x)) {
                CHECK(std::isnan(program::from_half(storage, program::to_half(storage, x))));
                continue;
            }
            REQUIRE(program::to_half(storage, x) == bits);
            // Half way to the next one of the same sign: to the even one; slightly below or above: to the nearer one.
            const float next = program::from_half(storage, static_cast<uint16_t>(bits + 1));
            if (!std::isfinite(x) || !std::isfinite(next) || (bits & 0x7FFFu) == 0x7FFFu) continue;
            const auto middle = static_cast<float>((static_cast<double>(x) + static_cast<double>(next)) / 2);
            REQUIRE(program::to_half(storage, middle) == bits + (bits & 1));
            REQUIRE(program::to_half(storage, std::nextafter(middle, x)) == bits);
            REQUIRE(program::to_half(storage, std::nextafter(middle, next)) == bits + 1);
        }
    }
    CHECK(program::to_half(Storage::f16, 65519.0f) == 0x7BFF);
    CHECK(program::to_half(Storage::f16, 65520.0f) == 0x7C00);
    CHECK(program::to_half(Storage::f16, -1e30f) == 0xFC00);
}

TEST_CASE("matmul of 16-bit operands: every layout at odd and even sizes") {
    Bench bench;
    if (!has_storage16(bench)) return;
    const int64_t sizes[][3] = {{1, 1, 1},    {1, 7, 5},    {8, 16, 8}, {13, 17, 19},
                                {33, 65, 31}, {64, 96, 50}, {5, 6, 700}};
    for (const Storage storage : {Storage::f16, Storage::bf16})
        for (const bool products : {false, true})
            for (const auto& [m, n, k] : sizes)
                for (int layout = 0; layout < 4; ++layout) {
                    CAPTURE(m);
                    CAPTURE(n);
                    CAPTURE(k);
                    CAPTURE(layout);
                    const bool ta = (layout & 1) != 0, tb = (layout & 2) != 0;
                    check_halves(bench, product(ta ? Shape{k, m} : Shape{m, k}, tb ? Shape{n, k} : Shape{k, n}, ta, tb),
                                 storage, products);
                }
}

namespace {

void check_every_kernel(bool all) {
    Bench bench;
    if (!has_storage16(bench)) return;
    for (const char* choice :
         {"direct.t4x4", "direct.t32x4", "tiled.t64", "tiled.t128", "tiled.t32x64", "vector.r1", "vector.r4"})
        for (const Storage storage : {Storage::f16, Storage::bf16}) {
            CAPTURE(choice);
            // The two storages differ in how they round.
            if (!all && (storage == Storage::bf16) != (std::string_view(choice) == "tiled.t64")) continue;
            check_halves(bench, product({70, 33}, {33, 129}, false, false), storage, true, choice);
            check_halves(bench, product({2, 34, 66}, {2, 66, 130}, false, false), storage, true, choice);
            check_halves(bench, product({36, 20}, {20, 68}, false, false), storage, true, choice);
            check_halves(bench, product({6, 1030}, {10, 1030}, false, true), storage, true, choice);
        }
}

} // namespace

TEST_CASE("matmul of 16-bit operands: every kernel") { check_every_kernel(false); }

TEST_SUITE("long") {
    TEST_CASE("matmul of 16-bit operands: every kernel in every storage") { check_every_kernel(true); }
}

TEST_CASE("a model's matrices in 16 bits: embedding, linear, a tied decoder; the rest stays float32") {
    Bench bench;
    if (!has_storage16(bench)) return;
    for (const Storage storage : {Storage::f16, Storage::bf16})
        for (const int64_t width : {8, 13}) {
            CAPTURE(width);
            Builder b;
            const ValueId table = b.parameter("table", {19, width}, 0, 0, 0, 0);
            const ValueId ids = b.input("ids", Kind::int32, {3, 5});
            const ValueId gain = b.parameter("gain", {width}, 0, 0, 0, 0);
            const ValueId scale = b.parameter("scale", {1, width}, 0, 0, 0, 0); // read by a 32-bit kernel
            ValueId x = b(Op::layer_norm, {b(Op::embedding, {table, ids}), gain});
            x = b(Op::mul, {x, scale});
            x = b(Op::linear,
                  {x, b.parameter("w", {width, 2 * width}, 0, 0, 0, 0), b.parameter("b", {2 * width}, 0, 0, 0, 0)},
                  {{"input_first", int64_t{1}}});
            x = b(Op::slice, {b(Op::gelu, {x})}, {{"axis", int64_t{-1}}, {"start", int64_t{1}}, {"length", width}});
            b.output("logits", b(Op::linear, {x, table}, {{"input_first", int64_t{0}}}));
            const Graph graph = finished(std::move(b));
            check_halves(bench, graph, storage, false, {}, {{"ids", 19}});
            auto store = program::ParameterStore::create(*bench, program::parameter_table(graph), {.weights = storage});
            REQUIRE(store.ok());
            CHECK(store.value()->find("table")->storage == storage);
            CHECK(store.value()->find("w")->storage == storage);
            CHECK(store.value()->find("scale")->storage == Storage::f32);
            CHECK(store.value()->find("gain")->storage == Storage::f32);
            auto whole = program::ParameterStore::create(*bench, program::parameter_table(graph));
            REQUIRE(whole.ok());
            CHECK(store.value()->bytes(program::StoreArena::parameters) <
                  whole.value()->bytes(program::StoreArena::parameters));
        }
}

// A frozen body in 16 bits under low-rank matrices that are trained, in the middle of a graph: products in every
// layout, a tied table, a view, and a matrix that the gradient alone reads in 32 bits.
TEST_CASE("gradients through frozen matrices in 16 bits are those of the rounded matrices") {
    Bench bench;
    if (!has_storage16(bench)) return;
    const std::set<std::string, std::less<>> frozen{"table", "up", "down", "scaled"};
    for (const Storage storage : {Storage::f16, Storage::bf16})
        for (const auto& [rows, width, inner] :
             {std::tuple<int64_t, int64_t, int64_t>{1, 1, 3}, {5, 13, 29}, {70, 32, 64}}) {
            CAPTURE(width);
            Builder b;
            const auto parameter = [&](const char* name, const Shape& shape) {
                return b.parameter(name, shape, 0, 0, 0, 0);
            };
            const auto low_rank = [&](ValueId x, const std::string& name, int64_t in, int64_t out) {
                return b(Op::linear, {b(Op::linear, {x, parameter((name + ".a").c_str(), {2, in})}),
                                      parameter((name + ".b").c_str(), {out, 2})});
            };
            const ValueId table = parameter("table", {17, width});
            const ValueId ids = b.input("ids", Kind::int32, {rows, 2});
            const ValueId x = b(Op::embedding, {table, ids});
            ValueId y = b(Op::linear, {x, parameter("up", {width, inner})}, {{"input_first", int64_t{1}}});
            y = b(Op::gelu, {b(Op::add, {y, low_rank(x, "up", width, inner)})});
            const ValueId down =
                b(Op::transpose, {parameter("down", {inner, width})}, {{"permutation", std::vector<int64_t>{1, 0}}});
            y = b(Op::add, {x, b(Op::add, {b(Op::linear, {y, down}), low_rank(y, "down", inner, width)})});
            y = b(Op::mul, {y, parameter("scaled", {1, width})}); // read by a 32-bit kernel
            const ValueId logits = b(Op::linear, {y, table});
            const Graph graph = with_gradients(std::move(b), logits, frozen);
            Random random(3);
            graph::Feeds feeds = kernel_feeds(graph, random, {{"ids", 17}});
            std::vector<program::ParameterEntry> parameters = program::parameter_table(graph);
            program::keep_readable_in_16_bits(parameters, graph);
            auto store = program::ParameterStore::create(*bench, parameters,
                                                         {.gradients = true, .weights = storage, .frozen = frozen});
            REQUIRE_MESSAGE(store.ok(), store.message());
            for (const char* name : {"table", "up", "down"}) CHECK(store.value()->find(name)->storage == storage);
            for (const char* name : {"scaled", "up.a", "down.b"})
                CHECK(store.value()->find(name)->storage == Storage::f32);
            for (auto& [name, tensor] : feeds.parameters) {
                REQUIRE(store.value()->upload(name, std::vector<float>(tensor.data.begin(), tensor.data.end())).ok());
                const auto stored = store.value()->download(name);
                REQUIRE(stored.ok());
                tensor.data.assign(stored.value().begin(), stored.value().end());
            }
            program::CompileOptions options;
            options.outputs = {"loss"};
            auto program = program::Program::compile(*bench, graph, *store.value(), options);
            REQUIRE_MESSAGE(program.ok(), program.message());
            for (const auto& [name, tensor] : feeds.fields)
                REQUIRE(program.value()->set_input(name, to_bytes(tensor)).ok());
            for (const auto& [name, tensor] : feeds.step_scalars)
                REQUIRE(program.value()->set_scalar(name, static_cast<float>(tensor)).ok());
            REQUIRE(program.value()->run().ok());
            const Status ordered = program.value()->check_ordering();
            CHECK_MESSAGE(ordered.ok(), ordered.message());
            const Outcome expected = run_in_interpreter(graph, feeds);
            for (const char* name : {"up.a", "up.b", "down.a", "down.b"}) {
                CAPTURE(name);
                const auto gradient = store.value()->download(name, program::StoreArena::gradients);
                REQUIRE(gradient.ok());
                graph::Tensor tensor = expected.at(fmt::format("grad.{}", name));
                tensor.data.assign(gradient.value().begin(), gradient.value().end());
                const Outcome got{{"g", tensor}}, right{{"g", expected.at(fmt::format("grad.{}", name))}};
                std::string where;
                const double error = worst_error(got, right, &where);
                CHECK_MESSAGE(error <= 5e-6, "error " << error << " at " << where);
            }
        }
}

TEST_CASE("unsupported 16-bit storage is rejected") {
    const Graph graph = product({3, 4}, {4, 5}, false, false);
    {
        gpu::CapabilityOverrides overrides;
        overrides.disable = {"storage_16bit"};
        Bench bench({}, overrides);
        const auto store =
            program::ParameterStore::create(*bench, program::parameter_table(graph), {.weights = Storage::bf16});
        CHECK(store.code() == Code::unsupported);
        CHECK(store.message().find("no 16-bit storage") != std::string::npos);
        auto plain = program::ParameterStore::create(*bench, program::parameter_table(graph));
        REQUIRE(plain.ok());
        const auto program =
            program::Program::compile(*bench, graph, *plain.value(), {.outputs = {"y"}, .precision = Storage::f16});
        CHECK(program.code() == Code::unsupported);
    }
    Bench bench;
    if (!has_storage16(bench)) return;
    // What is trained stays in float32.
    auto trained = program::ParameterStore::create(*bench, program::parameter_table(graph),
                                                   {.gradients = true, .weights = Storage::bf16, .frozen = {"a"}});
    REQUIRE(trained.ok());
    CHECK(trained.value()->find("a")->storage == Storage::bf16);
    CHECK(trained.value()->find("b")->storage == Storage::f32);
    // A store created for one graph, and another graph whose kernels need 32 bits.
    auto store = program::ParameterStore::create(*bench, program::parameter_table(graph), {.weights = Storage::bf16});
    REQUIRE(store.ok());
    Builder b;
    b.output("y", b(Op::softmax, {b.parameter("a", {3, 4}, 0, 0, 0, 0)}, {{"axis", int64_t{-1}}}));
    const auto other = program::Program::compile(*bench, finished(std::move(b)), *store.value(), {.outputs = {"y"}});
    CHECK(other.code() == Code::unsupported);
}

TEST_CASE("16-bit precision: factors of products are rounded, sums are float32") {
    Bench bench;
    if (!has_storage16(bench)) return;
    const int64_t sizes[][3] = {{1, 1, 1}, {13, 17, 19}, {64, 96, 50}, {33, 65, 700}};
    for (const Storage storage : {Storage::f16, Storage::bf16})
        for (const auto& [m, n, k] : sizes) {
            CAPTURE(m);
            Builder b;
            const ValueId x = b.input("x", Kind::float_, {m, k}), w = b.parameter("w", {n, k}, 0, 0, 0, 0);
            const ValueId y = b(Op::linear, {x, w, b.parameter("bias", {n}, 0, 0, 0, 0)});
            b.output("y", b(Op::add, {y, b.scalar(2.0)})); // read in 32 bits, so stored in 32 bits
            const Graph graph = finished(std::move(b));
            Random random(6);
            graph::Feeds feeds = kernel_feeds(graph, random);
            RunOptions options;
            options.compile.precision = storage;
            const Outcome got = run_on_device(*bench, graph, feeds, options);
            for (graph::Tensor* factor : {&feeds.fields.at("x"), &feeds.parameters.at("w")})
                for (double& value : factor->data)
                    value = static_cast<double>(
                        program::from_half(storage, program::to_half(storage, static_cast<float>(value))));
            std::string where;
            const double error = worst_error(got, run_in_interpreter(graph, feeds), &where);
            CHECK_MESSAGE(error <= 2e-6, "error " << error << " at " << where);
        }
}

TEST_CASE("16-bit precision: a small model and its gradients are close to float32's") {
    Bench bench;
    if (!has_storage16(bench)) return;
    for (const Storage storage : {Storage::f16, Storage::bf16})
        // Stored logits, folded, also joined with the gradient, also with a bias, also with a soft cap.
        for (const int how : {0, 1, 2, 3, 4})
            for (const int64_t width : {8, 13}) {
                CAPTURE(width);
                CAPTURE(how);
                Builder b;
                const ValueId table = b.parameter("table", {19, width}, 0, 0, 0, 0);
                const ValueId x = b(Op::embedding, {table, b.input("ids", Kind::int32, {15})});
                const ValueId w = b.parameter("w", {2 * width, width}, 0, 0, 0, 0);
                const ValueId v = b.parameter("v", {2 * width, width}, 0, 0, 0, 0);
                ValueId h = b(Op::layer_norm, {x, b.parameter("gain", {width}, 0, 0, 0, 0)});
                h = b(Op::gelu, {b(Op::linear, {h, w, b.parameter("bias", {2 * width}, 0, 0, 0, 0)})});
                h = b(Op::layer_norm, {b(Op::linear, {h, v}, {{"input_first", int64_t{1}}})});
                const ValueId labels = b.input("labels", Kind::int32, {15});
                ValueId rows;
                if (how > 0) {
                    const ValueId bias = how > 2 ? b.parameter("last", {19}, 0, 0, 0, 0) : graph::kNone;
                    const ValueId inputs[] = {h, table, bias, labels};
                    const graph::NamedAttribute attributes[] = {{"chunk", int64_t{8}},
                                                                {"softcap", how == 4 ? 3.0 : 0.0}};
                    rows = b.emit(Op::linear_cross_entropy, inputs, attributes)[0];
                } else {
                    rows = b(Op::cross_entropy, {b(Op::linear, {h, table}), labels});
                }
                Graph graph = with_gradients(std::move(b), rows);
                if (how > 1) {
                    auto joined = graph::join_cross_entropy(graph);
                    REQUIRE_MESSAGE(joined.ok(), joined.message());
                    graph = joined.take();
                }
                Random random(7);
                const graph::Feeds feeds = kernel_feeds(graph, random, {{"ids", 19}, {"labels", 19}});
                // A chain of four products, each of whose factors is off by at most one unit.
                check_rounded(bench, graph, feeds, storage, 8);
            }
}

TEST_CASE("16-bit precision: norms, activations, gates and sums read and write 16 bits, also through views") {
    Bench bench;
    if (!has_storage16(bench)) return;
    int n = 0;
    for (const Storage storage : {Storage::f16, Storage::bf16})
        for (const int64_t width : {1, 6, 17, 64}) // of a gate
            for (const Op activation : {Op::silu, Op::relu, Op::tanh, Op::sigmoid, Op::gelu}) {
                CAPTURE(width);
                CAPTURE(graph::info(activation).name);
                Builder b;
                const auto parameter = [&](const char* name, const Shape& shape) {
                    return b.parameter(name, shape, 0, 0, 0, 0);
                };
                const auto part = [&](ValueId x, int64_t start) {
                    return b(Op::slice, {x}, {{"axis", int64_t{2}}, {"start", start}, {"length", width}});
                };
                const ValueId x = parameter("x", {3, 5, 11});
                const Op norm = ++n % 2 == 0 ? Op::layer_norm : Op::rms_norm;
                const ValueId h = b(norm, {x, parameter("gain", {11})});
                const ValueId both = b(Op::linear, {h, parameter("up", {2 * width, 11}), parameter("b", {2 * width})});
                ValueId gate = b(Op::mul, {b(activation, {part(both, 0)}), part(both, width)});
                if (n % 3 == 0) // the same number for a row
                    gate = b(Op::mul,
                             {gate, b(Op::mean, {both}, {{"axes", std::vector<int64_t>{2}}, {"keep", int64_t{1}}})});
                const ValueId down = b(Op::linear, {gate, parameter("down", {11, width})});
                const ValueId turned = b(Op::transpose, {down}, {{"permutation", std::vector<int64_t>{1, 0, 2}}});
                const ValueId y = b(Op::linear, {b(Op::tanh, {turned}), parameter("last", {7, 11})});
                const Graph graph = with_gradients(std::move(b), y);
                Random random(7);
                graph::Feeds feeds = kernel_feeds(graph, random);
                for (const char* name : {"up", "down", "last"}) // keeps activations out of saturation
                    for (double& value : feeds.parameters.at(name).data) value *= 0.25;
                RunOptions options;
                options.compile.precision = storage;
                const Outcome got = run_on_device(*bench, graph, feeds, options);
                std::string where;
                const double error = worst_error(got, run_in_interpreter(graph, feeds), &where);
                CHECK_MESSAGE(error <= 32 * unit(storage), "error " << error << " at " << where);
                options.compile.fused = false;
                CHECK(same_bits(got, run_on_device(*bench, graph, feeds, options)));
            }
}

namespace {

// Attention between two products: of a joint projection, or of separate ones, of which queries get a term in float32.
Graph attention_between_products(bool joint, int64_t heads, int64_t key_heads, int64_t width, double dropout) {
    constexpr int64_t kBatch = 2, kRows = 19, kIn = 12;
    Builder b;
    const auto parameter = [&](const char* name, const Shape& shape) { return b.parameter(name, shape, 0, 0, 0, 0); };
    const auto split = [&](ValueId x, int64_t of) {
        const ValueId rows = b(Op::reshape, {x}, {{"shape", std::vector<int64_t>{kBatch, kRows, of, width}}});
        return b(Op::transpose, {rows}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
    };
    const ValueId x = parameter("x", {kBatch, kRows, kIn});
    std::vector<ValueId> inputs(18, graph::kNone);
    if (joint) {
        const int64_t parts[] = {heads * width, key_heads * width, key_heads * width};
        const ValueId all = b(Op::linear, {x, parameter("qkv", {parts[0] + parts[1] + parts[2], kIn})});
        int64_t start = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            inputs[i] = split(b(Op::slice, {all}, {{"axis", int64_t{2}}, {"start", start}, {"length", parts[i]}}),
                              i == 0 ? heads : key_heads);
            start += parts[i];
        }
    } else {
        inputs[0] =
            split(b(Op::add, {b(Op::linear, {x, parameter("q", {heads * width, kIn})}), b.scalar(0.25)}), heads);
        inputs[1] = split(b(Op::linear, {x, parameter("k", {key_heads * width, kIn})}), key_heads);
        inputs[2] = split(b(Op::linear, {x, parameter("v", {key_heads * width, kIn})}), key_heads);
    }
    const graph::NamedAttribute attributes[] = {{"causal", int64_t{1}}, {"dropout", dropout}};
    const ValueId y = b.emit(Op::attention, inputs, attributes)[0];
    const ValueId rows = b(Op::reshape, {b(Op::transpose, {y}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}})},
                           {{"shape", std::vector<int64_t>{kBatch, kRows, heads * width}}});
    return with_gradients(std::move(b), b(Op::linear, {rows, parameter("o", {7, heads * width})}));
}

} // namespace

TEST_CASE("16-bit precision: attention reads and writes 16 bits, also in part") {
    Bench bench;
    if (!has_storage16(bench)) return;
    for (const Storage storage : {Storage::f16, Storage::bf16})
        for (const bool joint : {true, false})
            for (const auto& [heads, key_heads, width] :
                 {std::tuple<int64_t, int64_t, int64_t>{2, 2, 8}, {4, 2, 6}, {3, 1, 5}, {1, 1, 64}}) {
                if (storage == Storage::f16 && width == 64) continue; // the slowest to compile
                CAPTURE(joint);
                CAPTURE(width);
                const Graph graph = attention_between_products(joint, heads, key_heads, width, width == 6 ? 0.2 : 0.0);
                Random random(8);
                graph::Feeds feeds = kernel_feeds(graph, random);
                for (auto& [name, parameter] : feeds.parameters)
                    for (double& value : parameter.data) value *= 0.5;
                check_rounded(bench, graph, feeds, storage, 16);
                // Nothing between the products is converted or copied but the term in float32 and its gradient.
                auto lowered = program::lower(graph, bench->limits(), {.outputs = {"loss"}, .precision = storage});
                REQUIRE_MESSAGE(lowered.ok(), lowered.message());
                const auto copies = std::ranges::count_if(lowered.value().dispatches, [](const auto& dispatch) {
                    return dispatch.shader.starts_with("pointwise/copy");
                });
                CHECK(copies == 0);
            }
}

TEST_CASE("concat: parts that a kernel wrote in place, twice, or elsewhere") {
    Bench bench;
    const Graph graph = attention_between_products(true, 2, 1, 8, 0);
    auto lowered = program::lower(graph, bench->limits(), {.outputs = {"loss"}});
    REQUIRE_MESSAGE(lowered.ok(), lowered.message());
    for (const program::Dispatch& dispatch : lowered.value().dispatches)
        CHECK_MESSAGE(!dispatch.shader.starts_with("pointwise/copy"), dispatch.shader);
    check_kernel(bench, graph, 1e-5);
    // A gradient that is a part twice, and an output itself.
    Builder b;
    const ValueId q = b.input("q", Kind::float_, {1, 2, 9, 4});
    std::vector<ValueId> inputs(18, graph::kNone);
    for (const std::size_t i : {0, 1, 2}) inputs[i] = q;
    const graph::NamedAttribute attributes[] = {{"causal", int64_t{1}}};
    const auto forward = b.emit(Op::attention, inputs, attributes);
    std::vector<ValueId> backward{b.input("dy", Kind::float_, {1, 2, 9, 4}), forward[0], forward[1]};
    backward.insert(backward.end(), inputs.begin(), inputs.end());
    const graph::NamedAttribute wanted[] = {{"causal", int64_t{1}}, {"wanted", int64_t{7}}};
    const auto gradients = b.emit(Op::attention_gradient, backward, wanted);
    b.output("joined", b(Op::concat, {gradients[0], gradients[1], q, gradients[0]}, {{"axis", int64_t{-1}}}));
    b.output("dq", gradients[0]);
    b.output("rows", b(Op::concat, {gradients[2], gradients[2]}, {{"axis", int64_t{2}}}));
    check_kernel(bench, finished(std::move(b)), 1e-5);
}

TEST_CASE("16-bit precision: what is stored in 16 bits") {
    Builder b;
    const auto parameter = [&](const char* name, const Shape& shape) { return b.parameter(name, shape, 0, 0, 0, 0); };
    const ValueId x = parameter("x", {4, 8});
    const ValueId h = b(Op::layer_norm, {x, parameter("gain", {8})});
    const ValueId before = b(Op::linear, {h, parameter("up", {16, 8})});
    const ValueId after = b(Op::gelu, {before});
    const ValueId y = b(Op::add, {x, b(Op::linear, {after, parameter("down", {8, 16})})});
    const ValueId last = b(Op::rms_norm, {y});
    b.output("last", last);
    const Graph graph = with_gradients(std::move(b), y);
    const std::vector<bool> stored = program::stored_in_16_bits(graph, std::vector<bool>(graph.nodes.size(), true));
    CHECK(stored[h]);      // only products read it
    CHECK(stored[before]); // gelu and its gradient read it
    CHECK(stored[after]);
    CHECK_FALSE(stored[y]);    // the residual stream
    CHECK_FALSE(stored[last]); // an output
    int gradients = 0;
    for (const graph::Node& node : graph.nodes)
        for (const ValueId output : node.outputs)
            if (stored[output] && output > last) {
                ++gradients;
                CHECK(node.op != Op::add);
                CHECK(node.op != Op::layer_norm_gradient);
            }
    CHECK(gradients >= 3); // of gelu's result and argument, and of the norm's result
    for (const auto& [name, value] : graph.outputs) {
        CAPTURE(name);
        if (name.starts_with("grad.")) CHECK_FALSE(stored[value]);
    }
    // A parameter's gradient is float32, even if other kernels read it too, in 16 bits as well.
    Builder tied;
    const ValueId w = tied.parameter("w", {8, 8}, 0, 0, 0, 0), scale = tied.parameter("scale", {8, 8}, 0, 0, 0, 0);
    const ValueId product = tied(Op::linear, {tied.parameter("v", {4, 8}, 0, 0, 0, 0), w});
    tied.output("grad.v", tied(Op::transpose, {product}, {{"permutation", std::vector<int64_t>{1, 0}}}));
    tied.output("z", tied(Op::linear, {tied(Op::mul, {product, product}), scale}));
    const Graph read_twice = finished(std::move(tied));
    CHECK_FALSE(program::stored_in_16_bits(read_twice, std::vector<bool>(read_twice.nodes.size(), true))[product]);
    // Without the backward pass gelu is the epilogue of its product, whose own value is not stored.
    std::vector<bool> forward(graph.nodes.size(), false);
    for (graph::NodeId id = 0; id <= graph.value(y).node; ++id) forward[id] = true;
    CHECK_FALSE(program::stored_in_16_bits(graph, forward)[before]);
}

TEST_CASE("16-bit precision: a chain of products and activations uses half the memory") {
    Builder b;
    ValueId x = b.input("x", Kind::float_, {2048, 128});
    for (int i = 0; i < 6; ++i)
        x = b(Op::gelu, {b(Op::linear, {x, b.parameter(fmt::format("w.{}", i), {128, 128}, 0, 0, 0, 0)})});
    const Graph graph = with_gradients(std::move(b), x);
    const auto arena = [&](Storage precision) {
        program::Limits limits;
        limits.storage16 = true;
        auto lowering = program::lower(graph, limits, {.outputs = {"loss"}, .precision = precision});
        REQUIRE_MESSAGE(lowering.ok(), lowering.message());
        auto plan = program::plan_memory(lowering.value(), uint64_t{1} << 31);
        REQUIRE_MESSAGE(plan.ok(), plan.message());
        return plan->arena();
    };
    // All but the last result, and what is read in the kernel that makes it.
    CHECK(arena(Storage::bf16) < arena(Storage::f32) * 6 / 10);
}

} // namespace storage16_test
