// Properties of a program other than its results: states, alternating recordings, a shared arena, timings, clear
// errors.
#include "program/harness.hpp"
#include "program/kernel_case.hpp"
#include "program/parameter_store.hpp"

namespace program_test {

using namespace hekla;
using namespace hekla::test;

namespace {

std::unique_ptr<program::ParameterStore> store_of(Bench& bench, const Graph& graph) {
    auto store = program::ParameterStore::create(*bench, program::parameter_table(graph));
    REQUIRE_MESSAGE(store.ok(), store.message());
    return store.take();
}

std::unique_ptr<program::Program> compiled(Bench& bench, const Graph& graph, program::ParameterStore& store,
                                           const program::CompileOptions& options) {
    auto result = program::Program::compile(*bench, graph, store, options);
    REQUIRE_MESSAGE(result.ok(), result.message());
    return result.take();
}

Status set(program::Program& program, const char* field, const std::vector<float>& values) {
    return program.set_input(field, std::as_bytes(std::span(values)));
}

// y = x * rate + previous, and the next previous.
Graph running_sum(int64_t length) {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, Shape{length});
    const ValueId before = b.input("before", Kind::float_, Shape{length});
    const ValueId after = b(Op::add, {b(Op::mul, {x, b.step_scalar("rate", 1.0)}), before});
    b.output("after", after);
    b.output("doubled", b(Op::add, {before, after})); // reads the old content after the new one is computed
    return b.finish().take();
}

} // namespace

TEST_CASE("states persist across replays and are written after all of their readers") {
    Bench bench;
    const Graph graph = running_sum(600);
    auto store = store_of(bench, graph);
    auto program =
        compiled(bench, graph, *store,
                 {.outputs = {"doubled"}, .state_inputs = {{"before", "sum"}}, .state_outputs = {{"after", "sum"}}});
    CHECK(store->has_state("sum"));
    CHECK_FALSE(program->has_input("before"));
    REQUIRE(set(*program, "x", std::vector<float>(600, 2.0f)).ok());
    for (int i = 0; i < 5; ++i) REQUIRE(program->submit().ok());
    CHECK(program->check_ordering().ok());
    auto doubled = program->read_output("doubled");
    REQUIRE(doubled.ok());
    CHECK(doubled->floats()[599] == 8 + 10);
    auto bytes = store->download_state("sum");
    REQUIRE(bytes.ok());
    float last = 0;
    std::memcpy(&last, bytes->data() + 599 * 4, 4);
    CHECK(last == 10);
    REQUIRE(program->set_scalar("rate", 0.5f).ok());
    REQUIRE(program->run().ok());
    CHECK(program->read_output("doubled")->floats()[0] == 10 + 11);
    REQUIRE(store->zero_state("sum").ok());
    REQUIRE(program->run().ok());
    CHECK(program->read_output("doubled")->floats()[0] == 1);
}

TEST_CASE("fields are read when a replay is submitted, and may be set again at once") {
    Bench bench;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, Shape{100000});
    b.output("sum", b(Op::sum, {b(Op::mul, {x, x})}, {{"axes", std::vector<int64_t>{0}}}));
    const Graph graph = b.finish().take();
    auto store = store_of(bench, graph);
    auto program = compiled(bench, graph, *store, {.outputs = {"sum"}});
    for (int i = 1; i <= 6; ++i) {
        REQUIRE(set(*program, "x", std::vector<float>(100000, static_cast<float>(i))).ok());
        REQUIRE(program->submit().ok());
        if (i % 3 == 0) CHECK(program->read_scalar_output("sum").value() == 100000.0f * static_cast<float>(i * i));
    }
}

TEST_CASE("programs share one arena, and stay valid when it grows") {
    Bench bench;
    const auto chain = [](int64_t length) {
        Builder b;
        ValueId x = b.input("x", Kind::float_, Shape{length});
        ValueId y = b(Op::cumsum, {x}, {{"axis", int64_t{0}}});
        y = b(Op::cumsum, {y}, {{"axis", int64_t{0}}});
        b.output("y", b(Op::slice, {y}, {{"axis", int64_t{0}}, {"start", int64_t{0}}, {"length", int64_t{4}}}));
        return b.finish().take();
    };
    const Graph small = chain(16);
    const Graph large = chain(50000);
    auto store = store_of(bench, small);
    auto first = compiled(bench, small, *store, {.outputs = {"y"}});
    REQUIRE(set(*first, "x", std::vector<float>(16, 1.0f)).ok());
    REQUIRE(first->run().ok());
    const uint64_t before = bench->arena().bytes();
    auto second = compiled(bench, large, *store, {.outputs = {"y"}});
    CHECK(bench->arena().bytes() > before);
    CHECK(bench->arena().bytes() == second->memory_plan().arena());
    REQUIRE(set(*second, "x", std::vector<float>(50000, 1.0f)).ok());
    REQUIRE(second->submit().ok());
    REQUIRE(first->submit().ok());
    for (auto* program : {first.get(), second.get()}) {
        auto y = program->read_output("y");
        REQUIRE(y.ok());
        CHECK(std::vector<float>(y->floats().begin(), y->floats().end()) == std::vector<float>{1, 3, 6, 10});
    }
}

TEST_CASE("rotary of long rows against the interpreter") {
    Bench bench;
    for (const int64_t half : {5, 16, 20, 32}) {
        CAPTURE(half);
        Builder b;
        const ValueId x = b.input("x", Kind::float_, Shape{2, 41, 4, 64});
        const ValueId turned = b(Op::transpose, {x}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
        const ValueId positions = b.input("positions", Kind::int32, Shape{2, 41});
        const ValueId cosine = b.input("cosine", Kind::float_, Shape{50, half});
        const ValueId sine = b.input("sine", Kind::float_, Shape{50, half});
        for (const int64_t inverse : {0, 1})
            for (const bool given : {false, true})
                b.output(
                    fmt::format("y.{}{}", inverse, given),
                    b(Op::rotary, {turned, cosine, sine, given ? positions : graph::kNone}, {{"inverse", inverse}}));
        check_kernel(bench, finished(std::move(b)), 1e-6);
    }
}

TEST_CASE("scans, top_k and rotary against the interpreter") {
    Bench bench;
    Builder b;
    Random random(5);
    const ValueId x = b.input("x", Kind::float_, Shape{2, 3, 5, 8});
    const ValueId turned = b(Op::transpose, {x}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
    const ValueId positions = b.input("positions", Kind::int32, Shape{2, 3});
    const ValueId cosine = b.input("cosine", Kind::float_, Shape{7, 3});
    const ValueId sine = b.input("sine", Kind::float_, Shape{7, 3});
    for (int64_t interleaved : {0, 1})
        for (int64_t inverse : {0, 1}) {
            b.output(
                fmt::format("rotary.{}{}", interleaved, inverse),
                b(Op::rotary, {turned, cosine, sine, positions}, {{"interleaved", interleaved}, {"inverse", inverse}}));
            b.output(fmt::format("rotary_in_place.{}{}", interleaved, inverse),
                     b(Op::rotary, {x, cosine, sine}, {{"interleaved", interleaved}, {"inverse", inverse}}));
        }
    for (int64_t axis : {0, 2, 3})
        for (int64_t reverse : {0, 1})
            b.output(fmt::format("cumsum.{}{}", axis, reverse),
                     b(Op::cumsum, {turned}, {{"axis", axis}, {"reverse", reverse}}));
    b.output("cumsum.int", b(Op::cumsum, {positions}, {{"axis", int64_t{1}}}));
    const ValueId inputs[] = {x};
    const graph::NamedAttribute k[] = {{"k", int64_t{4}}};
    const std::vector<ValueId> top = b.emit(Op::top_k, inputs, k);
    REQUIRE_MESSAGE(b.ok(), b.status().message());
    b.output("top.values", top[0]);
    b.output("top.indices", top[1]);
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    graph::Feeds feeds;
    feeds.fields["x"] = random.tensor(Kind::float_, Shape{2, 3, 5, 8});
    for (std::size_t i = 0; i < 40; ++i) feeds.fields["x"].data[i] = static_cast<double>(i % 3); // ties
    feeds.fields["positions"] = random.tensor(Kind::int32, Shape{2, 3});
    feeds.fields["cosine"] = random.tensor(Kind::float_, Shape{7, 3});
    feeds.fields["sine"] = random.tensor(Kind::float_, Shape{7, 3});
    check_graph(bench, graph.value(), feeds, 1e-6);
}

TEST_CASE("timings name every dispatch") {
    Bench bench;
    if (!bench->gpu().capabilities().timestamps) return;
    const Graph graph = running_sum(100000);
    auto store = store_of(bench, graph);
    auto program = compiled(bench, graph, *store, {.outputs = {"doubled"}, .timings = true});
    REQUIRE(set(*program, "x", std::vector<float>(100000, 1.0f)).ok());
    REQUIRE(set(*program, "before", std::vector<float>(100000, 1.0f)).ok());
    REQUIRE(program->run().ok());
    const auto timings = program->timings();
    CHECK(timings.size() == program->dispatches());
    for (const auto& timing : timings) {
        CHECK(timing.seconds > 0);
        CHECK_FALSE(timing.name.empty());
    }
}

TEST_CASE("errors contain the given name and the existing ones") {
    Bench bench;
    const Graph graph = running_sum(10);
    auto store = store_of(bench, graph);
    auto wrong = program::Program::compile(*bench, graph, *store, {.outputs = {"dubled"}});
    REQUIRE_FALSE(wrong.ok());
    CHECK(wrong.code() == Code::not_found);
    CHECK(wrong.message().find("no output 'dubled'; it has: after, doubled") != std::string::npos);
    auto program = compiled(bench, graph, *store, {.outputs = {"doubled"}});
    const Status unset = program->run();
    CHECK(unset.code() == Code::failed_precondition);
    CHECK(unset.message().find("'before' was never set") != std::string::npos);
    CHECK(set(*program, "y", {1}).code() == Code::not_found);
    CHECK(set(*program, "x", {1, 2, 3}).message() == "the field 'x' takes 40 bytes; 12 were given");
    CHECK(program->read_output("loss").code() == Code::not_found);

    Builder b;
    b.scope_begin("encoder");
    const ValueId x = b.input("x", Kind::float_, Shape{1, 1, 2, 300}); // heads have a width of at most 256
    const ValueId h = b(Op::attention, {x, x, x});
    b.scope_end();
    REQUIRE_MESSAGE(b.ok(), b.status().message());
    b.output("h", h);
    const Graph wide = b.finish().take();
    const auto unsupported = program::lower(wide, bench->limits(), {.outputs = {"h"}});
    REQUIRE_FALSE(unsupported.ok());
    CHECK(unsupported.code() == Code::unsupported);
    CHECK(unsupported.message().find("attention in encoder") != std::string::npos);
}

} // namespace program_test
