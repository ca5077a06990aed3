// Models at their published sizes, with random weights: a forward pass, a backward pass and a step of AdamW, within the
// planned memory.
#include "plugin/composition/compose.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/start/initialize.hpp"
#include "train/step/training_graph.hpp"
#include "train/update/optimizer.hpp"

#include "program/harness.hpp"

#include <cmath>
#include <fmt/format.h>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace {

struct FullSize {
    std::string name;
    const char* architecture;
    const char* head;
    const char* objective;
    json config; // as published; missing keys have the reference's defaults
    int64_t batch, length;
    int64_t parameters; // of the published model with this head
};

std::vector<FullSize> full_sizes() {
    return {
        {"GPT-2 124M",
         "gpt2",
         "lm",
         "clm",
         {{"vocab_size", 50257}, {"n_positions", 1024}, {"n_embd", 768}, {"n_layer", 12}, {"n_head", 12}},
         1,
         256,
         124'439'808},
        {"BERT-base",
         "bert",
         "mlm",
         "mlm",
         {{"vocab_size", 30522},
          {"hidden_size", 768},
          {"num_hidden_layers", 12},
          {"num_attention_heads", 12},
          {"intermediate_size", 3072},
          {"max_position_embeddings", 512},
          {"type_vocab_size", 2}},
         2,
         128,
         109'514'298},
        {"T5-small",
         "t5",
         "lm",
         "seq2seq",
         {{"vocab_size", 32128}, {"d_model", 512}, {"d_kv", 64}, {"d_ff", 2048}, {"num_layers", 6}, {"num_heads", 8}},
         2,
         64,
         60'506'624},
        {"BART-base",
         "bart",
         "lm",
         "seq2seq",
         {{"vocab_size", 50265},
          {"d_model", 768},
          {"encoder_layers", 6},
          {"decoder_layers", 6},
          {"encoder_attention_heads", 12},
          {"decoder_attention_heads", 12},
          {"encoder_ffn_dim", 3072},
          {"decoder_ffn_dim", 3072},
          {"max_position_embeddings", 1024}},
         1,
         64,
         139'420'416},
    };
}

std::vector<int32_t> field_values(const plugin::BatchField& field, int64_t vocabulary, uint32_t state) {
    std::vector<int32_t> values(static_cast<std::size_t>(field.shape.elements()), 1);
    if (field.name.ends_with("_mask") || field.name == "token_type_ids") return values;
    for (int32_t& value : values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocabulary));
    }
    return values;
}

template<class T>
T ok(Result<T> result, const char* what) {
    REQUIRE_MESSAGE(result.ok(), what, ": ", result.message());
    return result.take();
}

} // namespace

TEST_SUITE("long") {
    TEST_CASE("full size: published models take a step in the memory that was planned") {
        const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
        for (const FullSize& model : full_sizes()) {
            CAPTURE(model.name);
            gpu::ContextOptions context_options;
            gpu::Context context = ok(gpu::create_context(context_options), "context");
            const auto runtime = ok(program::Runtime::create(std::move(context)), "runtime");
            gpu::Memory& memory = *runtime->gpu().memory;
            const uint64_t before = memory.usage().current_bytes;

            plugin::CompositionSpec spec;
            spec.architecture = model.architecture;
            spec.config = model.config;
            spec.head = model.head;
            spec.objective = model.objective;
            const auto composition = ok(plugin::Composition::create(registry, spec, nullptr), "compose");
            const auto fields = ok(composition->batch_fields(model.batch, model.length), "fields");
            const Graph described = ok(composition->build(HK_MODE_TRAIN, fields), "describe");
            const Graph graph = ok(train::training_graph(described), "training graph");
            const auto store =
                ok(program::ParameterStore::create(*runtime, program::parameter_table(graph),
                                                   {.gradients = true, .moments = program::kAdamMoments}),
                   "parameters");
            int64_t parameters = 0;
            for (const graph::Node& node : graph.nodes) {
                if (node.op != Op::parameter) continue;
                parameters += graph.shape(node.outputs[0]).elements();
                REQUIRE(store->upload(node.text("name"), train::initial_values(node, 7)).ok());
            }
            CHECK(parameters == model.parameters);

            program::CompileOptions options;
            options.outputs = {"loss"};
            options.state_outputs = {{"loss", train::kLossState}};
            const auto step = ok(program::Program::compile(*runtime, graph, *store, options), "compile");
            const auto optimizer =
                ok(train::Optimizer::create(*runtime, *store, train::TrainSection{}, step->gradient_names(), {}),
                   "optimizer");
            uint32_t stream = 0;
            graph::Feeds feeds;
            for (const plugin::BatchField& field : fields) {
                const std::vector<int32_t> values = field_values(field, model.config["vocab_size"], ++stream);
                REQUIRE(step->set_input(field.name, std::as_bytes(std::span(values))).ok());
                feeds.fields[field.name] = {field.kind, field.shape, {values.begin(), values.end()}};
            }
            for (std::size_t i = 0; i < described.losses.size(); ++i) {
                const ValueId wanted[] = {described.losses[i].count};
                const auto count = ok(graph::evaluate(described, feeds, wanted), "count");
                REQUIRE(count[0].data[0] > 0);
                REQUIRE(
                    step->set_scalar(fmt::format("loss_scale.{}", i), static_cast<float>(1 / count[0].data[0])).ok());
            }
            double losses[2] = {};
            for (int turn = 0; turn < 2; ++turn) {
                REQUIRE(step->run({.seed = 1, .step = static_cast<uint32_t>(turn)}).ok());
                losses[turn] = static_cast<double>(ok(step->read_scalar_output("loss"), "loss"));
                const train::StepOutcome outcome = ok(optimizer->step(1e-4), "step");
                CHECK(!outcome.skipped);
                CHECK(outcome.gradient_norm > 0.0);
            }
            // Before the first step the model knows nothing of the tokens; the loss then falls.
            CHECK(losses[0] > 0.8 * std::log(model.config["vocab_size"].get<double>()));
            CHECK(losses[1] < losses[0]);

            const auto planned = static_cast<double>(step->memory_plan().total());
            const auto used = static_cast<double>(memory.usage().peak_bytes - before);
            MESSAGE(model.name, ": planned ", planned / 1e6, " MB, the allocator's peak ", used / 1e6, " MB (",
                    100.0 * (used / planned - 1.0), " %), loss ", losses[0], " then ", losses[1]);
            CHECK(used == doctest::Approx(planned).epsilon(0.05));
        }
    }
}
