// Recomputation as set in a recipe: blocks are marked by the plugin SDK, the plan needs less memory, the bits are the
// same.
#include "plugin/compose.hpp"
#include "train/training_graph.hpp"

#include "program/harness.hpp"

#include <algorithm>
#include <set>

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr int64_t kBatch = 3, kLength = 24;

Graph step_of(const plugin::Registry& registry, const std::string& architecture, const nlohmann::json& config,
              bool recompute) {
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
    auto graph = train::training_graph(described.value());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
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
        const Graph again = step_of(registry, architecture, config, true);
        CHECK(again.nodes.size() > kept.nodes.size());
        const auto bytes = [&](const Graph& graph) {
            program::CompileOptions options;
            options.outputs = {"loss"};
            auto lowering = program::lower(graph, bench->limits(), options);
            REQUIRE_MESSAGE(lowering.ok(), lowering.message());
            auto plan = program::plan_memory(lowering.value(), uint64_t{1} << 31);
            REQUIRE_MESSAGE(plan.ok(), plan.message());
            return plan->arena();
        };
        MESSAGE(architecture, ": activations ", bytes(kept), " bytes, recomputed ", bytes(again));
        CHECK(bytes(again) < bytes(kept));

        Random random(3);
        graph::Feeds feeds;
        for (const graph::Node& node : kept.nodes) {
            if (node.op == Op::parameter)
                feeds.parameters[node.text("name")] = random.tensor(Kind::float32, kept.shape(node.outputs[0]), 0.3);
            if (node.op == Op::input)
                feeds.fields[node.text("field")] =
                    random.tensor(kept.kind(node.outputs[0]), kept.shape(node.outputs[0]), 1.0, 40);
            if (node.op == Op::step_scalar) feeds.step_scalars[node.text("name")] = 0.01;
        }
        feeds.seed = 11;
        feeds.step = 4;
        RunOptions options;
        options.compile.outputs = {"loss"};
        const Outcome one = run_on_device(*bench, kept, feeds, options),
                      two = run_on_device(*bench, again, feeds, options);
        CHECK(one.contains("loss"));
        CHECK(one.size() > 10);
        CHECK(same_bits(one, two));
        CHECK(std::ranges::any_of(one, [](const auto& output) { return output.first.starts_with("grad."); }));
    }
}
