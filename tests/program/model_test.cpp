// Whole models on the device, forward and backward, against the interpreter.
#include "graph/gradient.hpp"
#include "program/harness.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"
#include "program/speed.hpp"

#include <cstdlib>

namespace model_test {

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr double kDeviation = 0.2;

graph::Feeds random_feeds(const Graph& graph, uint64_t seed, int64_t vocabulary) {
    Random random(seed);
    graph::Feeds feeds;
    for (const graph::Node& node : graph.nodes) {
        const ValueId output = node.outputs.empty() ? graph::kNone : node.outputs[0];
        if (node.op == Op::input)
            feeds.fields[node.text("field")] = random.tensor(graph.kind(output), graph.shape(output), 1.0, vocabulary);
        if (node.op == Op::parameter) {
            graph::Tensor tensor = random.tensor(Kind::float32, graph.shape(output), kDeviation);
            if (node.text("name").ends_with(".gain"))
                for (double& x : tensor.data) x = static_cast<float>(1.0 + x);
            feeds.parameters[node.text("name")] = std::move(tensor);
        }
    }
    feeds.step_scalars["loss_scale.0"] = 0.125;
    feeds.seed = 99;
    feeds.step = 3;
    return feeds;
}

Graph finished(Builder& b) {
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    auto differentiated = graph::differentiate(described.take());
    REQUIRE_MESSAGE(differentiated.ok(), differentiated.message());
    return differentiated.take();
}

ValueId linear(Builder& b, const std::string& name, ValueId x, int64_t out) {
    const int64_t in = b.shape(x)[-1];
    const ValueId weight = b.parameter(name + ".weight", Shape{in, out}, 0, 0, 0, 0);
    const ValueId bias = b.parameter(name + ".bias", Shape{out}, 0, 0, 0, 0);
    return b(Op::linear, {x, weight, bias}, {{"input_first", int64_t{1}}});
}

ValueId layer_norm(Builder& b, const std::string& name, ValueId x) {
    const int64_t width = b.shape(x)[-1];
    return b(Op::layer_norm, {x, b.parameter(name + ".gain", Shape{width}, 0, 0, 0, 0),
                              b.parameter(name + ".bias", Shape{width}, 0, 0, 0, 0)});
}

Graph mlp() {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, Shape{7, 13});
    const ValueId target = b.input("target", Kind::float_, Shape{7, 5});
    const ValueId hidden = b(Op::gelu, {linear(b, "first", x, 19)}, {{"tanh_approximation", int64_t{1}}});
    const ValueId y = linear(b, "second", hidden, 5);
    const ValueId difference = b(Op::sub, {y, target});
    const ValueId loss = b(Op::sum, {b(Op::mul, {difference, difference})}, {{"axes", std::vector<int64_t>{0, 1}}});
    b.output("y", y);
    b.loss("squared", loss, b.fill(Kind::float32, Shape{}, 7), 1.0);
    return finished(b);
}

struct GptSize {
    int64_t batch = 2, tokens = 11, width = 24, heads = 3, layers = 2, vocabulary = 37;
    double dropout = 0.0;
};

ValueId heads_of(Builder& b, ValueId qkv, int64_t which, const GptSize& s) {
    const ValueId part = b(Op::slice, {qkv}, {{"axis", int64_t{2}}, {"start", which * s.width}, {"length", s.width}});
    const ValueId split =
        b(Op::reshape, {part}, {{"shape", std::vector<int64_t>{s.batch, s.tokens, s.heads, s.width / s.heads}}});
    return b(Op::transpose, {split}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
}

Graph gpt(const GptSize& s) {
    Builder b;
    const ValueId ids = b.input("ids", Kind::int32, Shape{s.batch, s.tokens});
    const ValueId labels = b.input("labels", Kind::int32, Shape{s.batch, s.tokens});
    const ValueId wte = b.parameter("wte.weight", Shape{s.vocabulary, s.width}, 0, 0, 0, 0);
    const ValueId wpe = b.parameter("wpe.weight", Shape{s.tokens + 3, s.width}, 0, 0, 0, 0);
    const auto dropped = [&](ValueId x) {
        return s.dropout > 0 ? b(Op::dropout, {x}, {{"probability", s.dropout}}) : x;
    };
    ValueId x = b(Op::add, {b(Op::embedding, {wte, ids}), b(Op::embedding, {wpe, b.positions(s.batch, s.tokens)})});
    x = dropped(x);
    for (int64_t layer = 0; layer < s.layers; ++layer) {
        const std::string name = fmt::format("h.{}", layer);
        b.scope_begin(name);
        const ValueId qkv = linear(b, name + ".attn.c_attn", layer_norm(b, name + ".ln_1", x), 3 * s.width);
        const ValueId attended =
            b(Op::attention, {heads_of(b, qkv, 0, s), heads_of(b, qkv, 1, s), heads_of(b, qkv, 2, s)},
              {{"causal", int64_t{1}}, {"dropout", s.dropout}});
        const ValueId back = b(Op::transpose, {attended}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
        const ValueId merged = b(Op::reshape, {back}, {{"shape", std::vector<int64_t>{s.batch, s.tokens, s.width}}});
        x = b(Op::add, {x, dropped(linear(b, name + ".attn.c_proj", merged, s.width))});
        const ValueId wide = linear(b, name + ".mlp.c_fc", layer_norm(b, name + ".ln_2", x), 4 * s.width);
        const ValueId active = b(Op::gelu, {wide}, {{"tanh_approximation", int64_t{1}}});
        x = b(Op::add, {x, dropped(linear(b, name + ".mlp.c_proj", active, s.width))});
        b.scope_end();
    }
    x = layer_norm(b, "ln_f", x);
    const ValueId logits = b(Op::linear, {x, wte});
    const ValueId losses = b(Op::cross_entropy, {logits, labels});
    b.output("logits", logits);
    b.loss("clm", b(Op::sum, {losses}, {{"axes", std::vector<int64_t>{0, 1}}}),
           b.fill(Kind::float32, Shape{}, static_cast<double>(s.batch * s.tokens)), 1.0);
    return finished(b);
}

} // namespace

TEST_CASE("a small network of two layers, forward and backward") {
    Bench bench;
    const Graph graph = mlp();
    check_graph(bench, graph, random_feeds(graph, 1, 7), 2e-6);
}

TEST_CASE("a small GPT, forward and backward") {
    Bench bench;
    const Graph graph = gpt({});
    check_graph(bench, graph, random_feeds(graph, 2, 37), 2e-5);
}

TEST_CASE("a small GPT with dropout") {
    Bench bench;
    const Graph graph = gpt({.dropout = 0.2});
    check_graph(bench, graph, random_feeds(graph, 3, 37), 2e-5);
}

TEST_CASE("a small GPT with 16 KiB of shared memory and without 16-bit storage") {
    gpu::CapabilityOverrides overrides;
    overrides.disable = {"storage_16bit"};
    overrides.shared_memory_bytes = 16384;
    Bench bench({}, overrides);
    CHECK_FALSE(bench->limits().storage16);
    CHECK(bench->limits().shared_memory == 16384);
    const Graph graph = gpt({});
    check_graph(bench, graph, random_feeds(graph, 5, 37), 2e-5);
}

TEST_CASE("a small GPT in many submits and small arena blocks") {
    program::RuntimeOptions options;
    Bench plain(options);
    const Graph graph = gpt({});
    const graph::Feeds feeds = random_feeds(graph, 6, 37);
    const Outcome expected = run_on_device(*plain, graph, feeds, {});
    options.budget_seconds = plain->device_limits().cpu ? 1e-6 : 1e-8; // a few dispatches
    options.segment_seconds = options.budget_seconds;
    options.max_block_bytes = 64 * 1024;
    Bench cut(options);
    CHECK(same_bits(expected, run_on_device(*cut, graph, feeds, {})));
    CHECK(cut->arena().blocks().size() > 1);
    CHECK(cut->gpu().queue->submits() >= 10);
}

TEST_CASE("dispatches that took longer than the budget are split again, with the same bits") {
    Bench plain;
    const Graph graph = gpt({});
    const graph::Feeds feeds = random_feeds(graph, 6, 37);
    const Outcome expected = run_on_device(*plain, graph, feeds, {});
    program::RuntimeOptions options;
    // Above the estimate of most dispatches, and below their actual times.
    options.budget_seconds = plain->device_limits().cpu ? 1e-5 : 1e-6;
    options.segment_seconds = options.budget_seconds / 8;
    Bench bench(options, {}, true);
    std::vector<bool> cut;
    RunOptions run;
    run.runs = 3;
    run.between = [&](program::Runtime& runtime) {
        const Result<bool> any = runtime.resplit();
        REQUIRE_MESSAGE(any.ok(), any.message());
        cut.push_back(any.value());
    };
    CHECK(same_bits(expected, run_on_device(*bench, graph, feeds, run)));
    REQUIRE(cut.size() == 2);
    CHECK(cut[0]);
    // Without a budget nothing is too long.
    program::RuntimeOptions without = options;
    without.budget_seconds = 0;
    Bench unbudgeted(without, {}, true);
    CHECK(same_bits(expected, run_on_device(*unbudgeted, graph, feeds, run)));
    CHECK_FALSE(cut[2]);
}

TEST_CASE("submits to GPUs are bounded unless the caller chooses") {
    CHECK(program::submit_seconds(true, false) == 0);
    CHECK(program::submit_seconds(false, true) < program::submit_seconds(false, false));
    program::RuntimeOptions options;
    CHECK(Bench(options)->options().budget_seconds ==
          program::submit_seconds(Bench(options)->device_limits().cpu, Bench(options)->gpu().capabilities().display));
    options.kernels_of_gpus = true;
    Bench as_gpu(options);
    CHECK(as_gpu->options().budget_seconds > 0);
    CHECK(as_gpu->options().segment_seconds == as_gpu->options().budget_seconds);
    options.budget_seconds = 0.5;
    CHECK(Bench(options)->options().budget_seconds == 0.5);
}

TEST_CASE("the device has the subgroup size of this process") {
    const char* wanted = std::getenv("HEKLA_TEST_SUBGROUPS");
    if (!wanted) return;
    Bench bench;
    CHECK(std::to_string(bench->limits().subgroup_size) == wanted);
}

TEST_CASE("each barrier of a recorded GPT step is needed, and a missing one is detected") {
    Bench bench;
    const Graph graph = gpt({});
    auto store = program::ParameterStore::create(*bench, program::parameter_table(graph), {.gradients = true});
    REQUIRE(store.ok());
    auto compiled = program::Program::compile(*bench, graph, *store.value(), {.outputs = {"loss"}});
    REQUIRE_MESSAGE(compiled.ok(), compiled.message());
    auto events = compiled.value()->ordering_events(2);
    REQUIRE(events.ok());
    CHECK(program::check_ordering(events.value()).faults.empty());
    std::vector<std::size_t> barriers;
    // Barriers of the first replay. The one at its start orders it after all earlier work.
    for (std::size_t e = 1; e < events->size() / 2; ++e)
        if (events.value()[e].kind == program::OrderingEvent::Kind::barrier) barriers.push_back(e);
    REQUIRE(barriers.size() >= 30);
    for (std::size_t k = 0; k < 30; ++k) {
        const std::size_t at = barriers[k * barriers.size() / 30];
        std::vector<program::OrderingEvent> without = events.value();
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(at));
        CHECK_MESSAGE(!program::check_ordering(without).faults.empty(), "barrier " << at << " is not missed");
    }
}

TEST_CASE("gradients accumulate over micro-batches") {
    Bench bench;
    const Graph graph = mlp();
    const graph::Feeds feeds = random_feeds(graph, 4, 7);
    RunOptions options;
    const Outcome once = run_on_device(*bench, graph, feeds, options);
    options.compile.gradients = program::Gradients::accumulate;
    CHECK(same_bits(once, run_on_device(*bench, graph, feeds, options)));
    options.scalars.accumulate = true;
    options.runs = 2; // a new store holds zeros
    const Outcome twice = run_on_device(*bench, graph, feeds, options);
    for (const auto& [name, tensor] : once) {
        if (!name.starts_with("grad.")) continue;
        for (std::size_t i = 0; i < tensor.data.size(); ++i) CHECK(twice.at(name).data[i] == 2 * tensor.data[i]);
    }
}

} // namespace model_test
