// Weights that are stored by panels: the same results, and the same bits where the order of a sum is the same.
#include "program/kernel_case.hpp"

#include <algorithm>

namespace panels_test {

using namespace hekla;
using namespace hekla::test;
using program::Storage;

namespace {

RunOptions inference(bool panels, Storage weights = Storage::f32) {
    RunOptions options;
    options.compile.gradients = program::Gradients::ignore;
    options.store = {.weights = weights, .panels = panels};
    return options;
}

// y = gelu(x W + bias) + x', of an x that is computed.
Graph linear_of(int64_t rows, int64_t in, int64_t out, int64_t input_first) {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {rows, in});
    const ValueId weight = b.parameter("weight", input_first != 0 ? Shape{in, out} : Shape{out, in}, 0, 0, 0, 0);
    const ValueId bias = b.parameter("bias", {out}, 0, 0, 0, 0);
    const ValueId scaled = b(Op::mul, {x, b.scalar(0.5)});
    const ValueId y = b(Op::gelu, {b(Op::linear, {scaled, weight, bias}, {{"input_first", input_first}})});
    b.output("y", b(Op::add, {y, b.input("residual", Kind::float_, {rows, out})}));
    return finished(std::move(b));
}

bool has_panels(Bench& bench, const Graph& graph) {
    auto store = program::ParameterStore::create(*bench, program::parameter_table(graph), {.panels = true});
    REQUIRE_MESSAGE(store.ok(), store.message());
    return store.value()->find("weight")->panel != 0;
}

// Only CPUs whose kernels read panels store them.
bool stores_panels(Bench& bench) { return has_panels(bench, linear_of(1, 512, 256, 1)); }

struct Sizes {
    int64_t rows, in, out;
};
// One row and many; an odd number of elements to a sum; vectors that do not fill a tile.
constexpr Sizes kSizes[] = {{1, 1031, 96}, {1, 256, 512}, {2, 1031, 96}, {3, 683, 96},
                            {5, 128, 544}, {7, 4099, 32}, {13, 67, 992}, {130, 300, 256}};

void check_all(Bench& bench, Storage weights, double tolerance) {
    for (const auto& [rows, in, out] : kSizes)
        for (const int64_t input_first : {0, 1}) {
            CAPTURE(rows);
            CAPTURE(in);
            CAPTURE(out);
            CAPTURE(input_first);
            const Graph graph = linear_of(rows, in, out, input_first);
            Random random(3);
            const graph::Feeds feeds = kernel_feeds(graph, random);
            const Outcome by_rows = run_on_device(*bench, graph, feeds, inference(false, weights));
            const Outcome by_panels = run_on_device(*bench, graph, feeds, inference(true, weights));
            std::string where;
            double error = worst_error(by_panels, run_in_interpreter(graph, feeds), &where);
            CHECK_MESSAGE(error <= tolerance, "error " << error << " at " << where);
            error = worst_error(by_panels, by_rows, &where);
            CHECK_MESSAGE(error <= 2e-6, "rows and panels differ by " << error << " at " << where);
            if (input_first != 0 && weights == Storage::f32)
                CHECK_MESSAGE(same_bits(by_panels, by_rows), "rows and panels differ");
        }
}

// Computes `second` with a store of `first`, and compares with the interpreter and with what the store gives back.
Outcome check_of_store(Bench& bench, const Graph& first, const Graph& second) {
    Random random(7);
    const graph::Feeds feeds = kernel_feeds(second, random);
    auto store = program::ParameterStore::create(*bench, program::parameter_table(first), {.panels = true});
    REQUIRE_MESSAGE(store.ok(), store.message());
    const std::vector<double>& given = feeds.parameters.at("weight").data;
    const std::vector<float> values(given.begin(), given.end());
    REQUIRE(store.value()->upload("weight", values).ok());
    program::CompileOptions options;
    options.gradients = program::Gradients::ignore;
    for (const auto& [name, value] : second.outputs) options.outputs.push_back(name);
    auto program = program::Program::compile(*bench, second, *store.value(), options);
    REQUIRE_MESSAGE(program.ok(), program.message());
    REQUIRE(program.value()->set_input("x", to_bytes(feeds.fields.at("x"))).ok());
    REQUIRE(program.value()->run().ok());
    Outcome outcome;
    for (const std::string& name : program.value()->output_names()) {
        auto tensor = program.value()->read_output(name);
        REQUIRE_MESSAGE(tensor.ok(), tensor.message());
        outcome[name] = to_tensor(tensor.value());
    }
    std::string where;
    const double error = worst_error(outcome, run_in_interpreter(second, feeds), &where);
    CHECK_MESSAGE(error <= 2e-6, "error " << error << " at " << where);
    auto read = store.value()->download("weight");
    REQUIRE(read.ok());
    CHECK(std::ranges::equal(read.value(), values));
    const program::ParameterStore::Part part{"weight", 0, values};
    CHECK(store.value()->upload(std::span(&part, 1)).ok() == !stores_panels(bench));
    return outcome;
}

} // namespace

TEST_CASE("panels: linears of one row and of many, in both orders of the weight") {
    Bench bench;
    check_all(bench, Storage::f32, 2e-6);
}

TEST_CASE("panels: weights in 16 bits") {
    Bench bench;
    if (!bench->limits().storage16) return;
    check_all(bench, Storage::f16, 2e-3);
    check_all(bench, Storage::bf16, 1.5e-2);
}

TEST_CASE("panels: a row has the same bits alone and among others") {
    Bench bench;
    if (!stores_panels(bench)) return;
    constexpr int64_t kIn = 1031, kOut = 96;
    Random random(5);
    const graph::Feeds all = kernel_feeds(linear_of(8, kIn, kOut, 0), random);
    const Outcome whole = run_on_device(*bench, linear_of(8, kIn, kOut, 0), all, inference(true));
    for (const int64_t rows : {1, 2, 5}) {
        graph::Feeds few = all;
        for (auto& [name, tensor] : few.fields) {
            tensor.shape[0] = rows;
            tensor.data.resize(static_cast<std::size_t>(tensor.shape.elements()));
        }
        const Outcome part = run_on_device(*bench, linear_of(rows, kIn, kOut, 0), few, inference(true));
        const std::vector<double>& y = whole.at("y").data;
        CHECK(part.at("y").data == std::vector<double>(y.begin(), y.begin() + rows * kOut));
    }
}

TEST_CASE("panels: another reader than a linear gets the weight row by row") {
    Bench bench;
    for (const int64_t input_first : {0, 1}) {
        CAPTURE(input_first);
        // The store is of a graph in which only the linear reads the weight.
        const Graph first = linear_of(1, 512, 256, input_first);
        Builder b;
        const ValueId weight = b.parameter("weight", input_first != 0 ? Shape{512, 256} : Shape{256, 512}, 0, 0, 0, 0);
        const ValueId x = b.input("x", Kind::float_, {3, 512});
        b.output("y", b(Op::linear, {x, weight}, {{"input_first", input_first}}));
        b.output("doubled", b(Op::mul, {weight, b.scalar(2.0)}));
        b.output("itself", weight);
        b.output("other", b(Op::matmul, {x, weight}, {{"transpose_b", 1 - input_first}}));
        const Graph second = finished(std::move(b));
        check_of_store(bench, first, second);
    }
}

TEST_CASE("panels: a linear that reads the weight in the other order") {
    Bench bench;
    for (const int64_t input_first : {0, 1}) {
        CAPTURE(input_first);
        const Graph first = linear_of(1, 512, 512, input_first);
        Builder b;
        const ValueId weight = b.parameter("weight", {512, 512}, 0, 0, 0, 0);
        const ValueId x = b.input("x", Kind::float_, {3, 512});
        b.output("as_stored", b(Op::linear, {x, weight}, {{"input_first", input_first}}));
        b.output("other", b(Op::linear, {x, weight}, {{"input_first", 1 - input_first}}));
        check_of_store(bench, first, finished(std::move(b)));
    }
}

TEST_CASE("panels: which weights have them") {
    Bench bench;
    const bool panels = stores_panels(bench);
    CHECK(has_panels(bench, linear_of(1, 512, 256, 0)) == panels);
    CHECK_FALSE(has_panels(bench, linear_of(1, 64, 64, 0)));   // small
    CHECK_FALSE(has_panels(bench, linear_of(1, 4096, 36, 0))); // no whole panels
    Builder b;                                                 // a table of words that is the last layer, too
    const ValueId weight = b.parameter("weight", {512, 256}, 0, 0, 0, 0);
    const ValueId x = b(Op::embedding, {weight, b.input("ids", Kind::int32, {2})});
    b.output("y", b(Op::linear, {x, weight}, {{"input_first", int64_t{0}}}));
    CHECK_FALSE(has_panels(bench, finished(std::move(b))));
    auto trained = program::ParameterStore::create(*bench, program::parameter_table(linear_of(1, 512, 256, 0)),
                                                   {.gradients = true, .panels = true});
    REQUIRE(trained.ok());
    CHECK(trained.value()->find("weight")->panel == 0);
}

} // namespace panels_test
