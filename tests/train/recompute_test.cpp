// Recomputation as set in a recipe: blocks are marked by the plugin SDK, the plan needs less memory, the bits are the
// same.
#include "plugin/composition/compose.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/step/training_graph.hpp"

#include "program/harness.hpp"

#include <algorithm>
#include <set>

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr int64_t kBatch = 3, kLength = 24;

Graph step_of(const plugin::Registry& registry, const std::string& architecture, const nlohmann::json& config,
              bool recompute, graph::Recompute also = {}) {
    plugin::CompositionSpec spec;
    spec.architecture = architecture;
    spec.config = config;
    spec.head = "lm";
    spec.objective = "clm";
    spec.recompute = recompute;
    auto composition = plugin::Composition::create(registry, spec, nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    auto fields = composition.value()->batch_fields(kBatch, kLength);
    REQUIRE_MESSAGE(fields.ok(), fields.message());
    auto described = composition.value()->build(HK_MODE_TRAIN, fields.value());
    REQUIRE_MESSAGE(described.ok(), described.message());
    std::set<uint32_t> regions;
    for (const graph::Node& node : described->nodes)
        if (node.region != 0) regions.insert(node.region);
    CHECK(regions.size() == (recompute ? 3 : 0)); // one per block
    auto graph = train::training_graph(described.value(), {}, also);
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

graph::Feeds feeds_of(const Graph& graph, Random& random) {
    graph::Feeds feeds;
    for (const graph::Node& node : graph.nodes) {
        const Shape& shape = graph.shape(node.outputs[0]);
        const Kind kind = graph.kind(node.outputs[0]);
        if (node.op == Op::parameter) feeds.parameters[node.text("name")] = random.tensor(Kind::float32, shape, 0.3);
        if (node.op == Op::input) feeds.fields[node.text("field")] = random.tensor(kind, shape, 1.0, 40);
        if (node.op == Op::step_scalar) feeds.step_scalars[node.text("name")] = 0.01;
    }
    feeds.seed = 11;
    feeds.step = 4;
    return feeds;
}

uint64_t bytes(program::Runtime& runtime, const Graph& graph, program::Storage precision) {
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.precision = precision;
    auto lowering = program::lower(graph, runtime.limits(), options);
    REQUIRE_MESSAGE(lowering.ok(), lowering.message());
    auto plan = program::plan_memory(lowering.value(), uint64_t{1} << 31);
    REQUIRE_MESSAGE(plan.ok(), plan.message());
    return plan->arena();
}

} // namespace

TEST_CASE("recomputation plans less memory and gives the same bits") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    const std::pair<std::string, nlohmann::json> models[] = {{"gpt2",
                                                              {{"vocab_size", 40},
                                                               {"n_positions", 32},
                                                               {"n_embd", 32},
                                                               {"n_layer", 3},
                                                               {"n_head", 2},
                                                               {"embd_pdrop", 0.1},
                                                               {"attn_pdrop", 0.2},
                                                               {"resid_pdrop", 0.1}}},
                                                             {"llama",
                                                              {{"vocab_size", 40},
                                                               {"hidden_size", 32},
                                                               {"intermediate_size", 48},
                                                               {"num_hidden_layers", 3},
                                                               {"num_attention_heads", 4},
                                                               {"num_key_value_heads", 2},
                                                               {"max_position_embeddings", 32}}}};
    Bench bench;
    for (const auto& [architecture, config] : models) {
        CAPTURE(architecture);
        const Graph kept = step_of(registry, architecture, config, false);
        const std::pair<std::string, Graph> variants[] = {
            {"blocks", step_of(registry, architecture, config, true)},
            {"norms", step_of(registry, architecture, config, false, {.norms = true})},
            {"activations", step_of(registry, architecture, config, false, {.activations = true})},
            {"both", step_of(registry, architecture, config, false, {true, true})}};
        Random random(3);
        const graph::Feeds feeds = feeds_of(kept, random);
        for (const program::Storage precision : {program::Storage::f32, program::Storage::bf16}) {
            RunOptions options;
            options.compile.outputs = {"loss"};
            options.compile.precision = precision;
            const Outcome expected = run_on_device(*bench, kept, feeds, options);
            CHECK(expected.contains("loss"));
            CHECK(expected.size() > 10);
            CHECK(std::ranges::any_of(expected, [](const auto& out) { return out.first.starts_with("grad."); }));
            for (const auto& [what, again] : variants) {
                CAPTURE(what);
                CHECK(again.nodes.size() > kept.nodes.size());
                const uint64_t before = bytes(*bench, kept, precision), after = bytes(*bench, again, precision);
                MESSAGE(architecture, ", ", what, ": activations ", before, " bytes, recomputed ", after);
                // GPUs compute gelu again in any case.
                const bool none_left =
                    what == "activations" && architecture == "gpt2" && bench->limits().kernels_of_gpus();
                CHECK((none_left ? after == before : after < before));
                const Outcome got = run_on_device(*bench, again, feeds, options);
                // In 16 bits a copy of a whole block may be fused, and so rounded, in another way.
                if (precision == program::Storage::f32 || what != "blocks") CHECK(same_bits(expected, got));
            }
        }
    }
}

TEST_CASE("a GPU computes gelu again with its gradient, whether that is selected or not") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    const nlohmann::json config = {
        {"vocab_size", 40}, {"n_positions", 32}, {"n_embd", 32}, {"n_layer", 3}, {"n_head", 2}};
    const Graph kept = step_of(registry, "gpt2", config, false),
                again = step_of(registry, "gpt2", config, false, {.activations = true});
    const auto kernels = [](const Graph& graph) {
        auto lowering = program::lower(graph, {}, {.outputs = {"loss"}});
        REQUIRE_MESSAGE(lowering.ok(), lowering.message());
        std::vector<std::string> names;
        for (const program::Dispatch& dispatch : lowering->dispatches) names.push_back(dispatch.shader);
        return names;
    };
    CHECK(again.nodes.size() > kept.nodes.size());
    CHECK(kernels(again) == kernels(kept));
    GpuKernelsBench bench;
    Random random(3);
    const graph::Feeds feeds = feeds_of(kept, random);
    RunOptions options;
    options.compile.outputs = {"loss"};
    CHECK(same_bits(run_on_device(*bench, kept, feeds, options), run_on_device(*bench, again, feeds, options)));
}
