// Programs on the device compute the same as the interpreter.
#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "generate/generator.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"

#include "../program/harness.hpp"
#include "generate/decoder_graph.hpp"
#include "graph/passes/decode_mode.hpp"
#include "models.hpp"

#include <algorithm>
#include <limits>

using namespace hekla;
using namespace hekla::generate;
using namespace hekla::test;

namespace {

std::unique_ptr<program::ParameterStore> store_of(program::Runtime& runtime, const graph::Graph& graph,
                                                  const Fields& weights) {
    auto store = program::ParameterStore::create(runtime, program::parameter_table(graph));
    REQUIRE_MESSAGE(store.ok(), store.message());
    for (const auto& [name, tensor] : weights) {
        const std::vector<float> values(tensor.data.begin(), tensor.data.end());
        const Status status = store.value()->upload(name, values);
        REQUIRE_MESSAGE(status.ok(), status.message());
    }
    return store.take();
}

// Two decoders that run the same steps; the scores of all active rows are compared.
class Both final : public Decoder {
public:
    Both(Decoder& device, Decoder& reference) : device_(device), reference_(reference) {}
    Result<int64_t> longest(const DecodeBatch& session) const override { return device_.longest(session); }
    bool encoder_decoder() const override { return reference_.encoder_decoder(); }
    int64_t vocabulary() const override { return reference_.vocabulary(); }
    int64_t capacity() const override { return reference_.capacity(); }
    const std::vector<int64_t>& chunks() const override { return device_.chunks(); }
    Status begin(const DecodeBatch& session) override {
        HK_TRY(reference_.begin(session));
        HK_TRY(device_.begin(session));
        CHECK(device_.capacity() == reference_.capacity());
        CHECK(device_.vocabulary() == reference_.vocabulary());
        CHECK(device_.chunks() == reference_.chunks());
        return {};
    }
    Status decode(const Step& step, Logits& logits) override {
        Logits ours;
        HK_TRY(device_.decode(step, ours));
        HK_TRY(reference_.decode(step, logits));
        REQUIRE(ours.size() == logits.size());
        const auto vocabulary = static_cast<std::size_t>(reference_.vocabulary());
        for (std::size_t row = 0; row < step.count.size(); ++row) {
            if (step.count[row] == 0) continue;
            double difference = 0.0, size = 0.0;
            for (std::size_t i = row * vocabulary; i < (row + 1) * vocabulary; ++i) {
                const double d = std::abs(static_cast<double>(ours[i]) - logits[i]);
                if (!(d <= difference)) difference = d;
                size = std::max(size, std::abs(static_cast<double>(logits[i])));
            }
            CHECK(difference <= 1e-5 * size);
        }
        return {};
    }

private:
    Decoder& device_;
    Decoder& reference_;
};

// The same decoder, whose tokens the host chooses.
class HostChooses final : public Decoder {
public:
    explicit HostChooses(Decoder& decoder) : decoder_(decoder) {}
    Result<int64_t> longest(const DecodeBatch& session) const override { return decoder_.longest(session); }
    bool encoder_decoder() const override { return decoder_.encoder_decoder(); }
    int64_t vocabulary() const override { return decoder_.vocabulary(); }
    int64_t capacity() const override { return decoder_.capacity(); }
    const std::vector<int64_t>& chunks() const override { return decoder_.chunks(); }
    Status begin(const DecodeBatch& session) override { return decoder_.begin(session); }
    Status decode(const Step& step, Logits& logits) override { return decoder_.decode(step, logits); }

private:
    Decoder& decoder_;
};

// Fields of one row of two tokens.
std::vector<plugin::BatchField> fields_of(const Model& model) {
    std::vector<plugin::BatchField> fields{{"input_ids", Kind::int32, Shape{1, 2}}};
    if (model.encodes) fields.push_back({"decoder_input_ids", Kind::int32, Shape{1, 2}});
    return fields;
}

} // namespace

TEST_CASE("decoder: programs on the device compute the same as the interpreter") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    Bench bench;
    for (const Model& model : models()) {
        CAPTURE(model.architecture);
        const auto composition = compose(registry, model);
        const auto described = composition->build(HK_MODE_EVALUATE, fields_of(model), kLogits);
        REQUIRE_MESSAGE(described.ok(), described.message());
        const Fields weights = random_weights(described.value(), 3);
        const auto store = store_of(*bench, described.value(), weights);
        auto reference = make_reference_decoder(*composition, weights);
        REQUIRE_MESSAGE(reference.ok(), reference.message());
        auto device = make_program_decoder(*bench, *store, *composition);
        REQUIRE_MESSAGE(device.ok(), device.message());
        Both both(*device.value(), *reference.value());
        Options o;
        o.max_new_tokens = 5;
        o.decoder_start = 1;
        Request request;
        for (const int length : {3, 20, 9}) request.prompts.push_back(some_ids(length, length));
        for (const auto& [beams, both_sides] : {std::pair(1, false), std::pair(3, false), std::pair(1, true)}) {
            o.beams = beams;
            request.both_sides = both_sides;
            const auto output = generate::generate(both, request, o);
            REQUIRE_MESSAGE(output.ok(), output.message());
            // A second time with compiled programs and used caches.
            const auto again = generate::generate(both, request, o);
            REQUIRE_MESSAGE(again.ok(), again.message());
            for (std::size_t row = 0; row < output->rows.size(); ++row)
                CHECK(again->rows[row].ids == output->rows[row].ids);
        }
    }
}

// Outputs of a decoding step's graph for positions 0, 1, 2 of each row, one after another, with its own caches.
std::vector<std::vector<float>> three_steps(program::Runtime& runtime, const graph::Graph& graph, const Fields& weights,
                                            program::CompileOptions options, program::Storage storage,
                                            std::size_t& dispatches) {
    auto store = program::ParameterStore::create(runtime, program::parameter_table(graph), {.weights = storage});
    REQUIRE_MESSAGE(store.ok(), store.message());
    for (const auto& [name, tensor] : weights)
        REQUIRE(store.value()->upload(name, std::vector<float>(tensor.data.begin(), tensor.data.end())).ok());
    options.gradients = program::Gradients::ignore;
    for (const auto& [name, value] : graph.outputs) options.outputs.push_back(name);
    auto program = program::Program::compile(runtime, graph, *store.value(), options);
    REQUIRE_MESSAGE(program.ok(), program.message());
    dispatches = program.value()->dispatches();
    std::vector<std::vector<float>> results;
    for (int32_t position = 0; position < 3; ++position) {
        std::mt19937 random(static_cast<unsigned>(position));
        for (const graph::Node& node : graph.nodes) {
            if (node.op != graph::Op::input) continue;
            const Shape& shape = graph.shape(node.outputs[0]);
            const std::string& field = node.text("field");
            Tensor tensor{graph.kind(node.outputs[0]), shape, {}};
            for (int64_t i = 0; i < shape.elements(); ++i) {
                double value = std::normal_distribution<double>()(random);
                if (field == "decode.start")
                    value = position;
                else if (field == "decode.count" || field == "attention_mask")
                    value = 1;
                else if (field == "decode.cache_row")
                    value = static_cast<double>(i / shape[1]);
                else if (!graph::is_float(tensor.kind))
                    value = static_cast<double>(i * 7 % kVocabulary);
                tensor.data.push_back(value);
            }
            REQUIRE(program.value()->set_input(field, to_bytes(tensor)).ok());
        }
        REQUIRE(program.value()->run().ok());
        for (const std::string& name : options.outputs) {
            auto output = program.value()->read_output(name);
            REQUIRE_MESSAGE(output.ok(), output.message());
            results.emplace_back(output->floats().begin(), output->floats().end());
        }
    }
    const Status ordered = program.value()->check_ordering();
    CHECK_MESSAGE(ordered.ok(), ordered.message());
    return results;
}

TEST_CASE("decoder: kernels in a chain give the same bits as separate dispatches") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    Bench bench;
    for (const Model& model : models()) {
        CAPTURE(model.architecture);
        const auto composition = compose(registry, model);
        const auto graphs = DecoderGraphs::create(*composition);
        REQUIRE_MESSAGE(graphs.ok(), graphs.message());
        for (const int64_t rows : {1, 3}) {
            CAPTURE(rows);
            Fields sources;
            if (model.encodes) {
                const Shape shape{rows, 5};
                sources["input_ids"] = {Kind::int32, shape, std::vector<double>(static_cast<std::size_t>(5 * rows), 1)};
                sources["attention_mask"] = sources["input_ids"];
            }
            const auto graph = graphs->turn(rows, 1, 16, sources);
            REQUIRE_MESSAGE(graph.ok(), graph.message());
            const Fields weights = random_weights(graph.value(), 3);
            for (const program::Storage storage :
                 {program::Storage::f32, program::Storage::f16, program::Storage::bf16}) {
                if (storage != program::Storage::f32 && !bench->limits().storage16) continue;
                CAPTURE(static_cast<int>(storage));
                std::size_t separate = 0, chained = 0;
                const auto a = three_steps(*bench, graph.value(), weights, {.chained = false}, storage, separate);
                const auto b = three_steps(*bench, graph.value(), weights, {.chained = true}, storage, chained);
                CHECK(a == b);
                if (bench->limits().cpu) CHECK(chained * 4 < separate);
            }
        }
    }
}

// Bytes of the graph's constants of at least this many elements, in float32.
int64_t bytes_of_constants(const graph::Graph& graph, int64_t least) {
    int64_t bytes = 0;
    for (const graph::Node& node : graph.nodes)
        if (node.op == graph::Op::constant)
            if (const int64_t elements = graph.shape(node.outputs[0]).elements(); elements >= least)
                bytes += 4 * elements;
    return bytes;
}

TEST_CASE("decoder: tables of rotary positions have the rows of the cache, and give the bits of whole tables") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    Bench bench;
    constexpr int64_t kPositions = 131072, kHeadDim = 6, kCapacity = 16, kLeast = 64;
    Model llama = models()[1];
    llama.config["max_position_embeddings"] = kPositions;
    Model neox{"gpt_neox",
               {{"vocab_size", 37},
                {"hidden_size", 24},
                {"intermediate_size", 40},
                {"num_hidden_layers", 2},
                {"num_attention_heads", 4},
                {"max_position_embeddings", kPositions}}};
    for (const Model& model : {llama, neox}) {
        CAPTURE(model.architecture);
        const auto composition = compose(registry, model);
        const auto graphs = DecoderGraphs::create(*composition);
        REQUIRE_MESSAGE(graphs.ok(), graphs.message());
        const auto turn = graphs->turn(3, 1, kCapacity, {});
        REQUIRE_MESSAGE(turn.ok(), turn.message());
        const int64_t tables = bytes_of_constants(turn.value(), kLeast), expected = 2 * 4 * kCapacity * kHeadDim / 2;
        CHECK(tables <= expected);
        // A host that does not tell the capacity.
        const plugin::BatchField ids[] = {{"input_ids", Kind::int32, Shape{3, 1}}};
        const auto described = composition->build(HK_MODE_DECODE, ids, kLogits);
        REQUIRE_MESSAGE(described.ok(), described.message());
        const auto whole = graph::decode_graph(described.value(), kCapacity);
        REQUIRE_MESSAGE(whole.ok(), whole.message());
        CHECK(bytes_of_constants(whole.value(), kLeast) > kPositions);
        const Fields weights = random_weights(turn.value(), 3);
        std::size_t dispatches = 0;
        CHECK(three_steps(*bench, turn.value(), weights, {}, program::Storage::f32, dispatches) ==
              three_steps(*bench, whole.value(), weights, {}, program::Storage::f32, dispatches));
        // Positions that the batch gives may be any.
        const plugin::BatchField given[] = {{"input_ids", Kind::int32, Shape{1, 4}},
                                            {"position_ids", Kind::int32, Shape{1, 4}}};
        const auto any = composition->build(HK_MODE_EVALUATE, given, kLogits);
        REQUIRE_MESSAGE(any.ok(), any.message());
        CHECK(bytes_of_constants(any.value(), kLeast) > kPositions);
        const auto counted = composition->build(HK_MODE_EVALUATE, std::span(given, 1), kLogits);
        REQUIRE_MESSAGE(counted.ok(), counted.message());
        CHECK(bytes_of_constants(counted.value(), 1) < 1024);
    }
}

TEST_CASE("decoder: tokens that the device chooses are those that the host would choose") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    Bench bench;
    for (const Model& model : models()) {
        CAPTURE(model.architecture);
        const auto composition = compose(registry, model);
        const auto graph = composition->build(HK_MODE_DECODE, fields_of(model));
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        const Fields weights = random_weights(graph.value(), 11);
        const auto store = store_of(*bench, graph.value(), weights);
        auto decoder = make_program_decoder(*bench, *store, *composition);
        REQUIRE_MESSAGE(decoder.ok(), decoder.message());
        HostChooses host(*decoder.value());
        for (const bool slides : {false, true})
            for (const double top_p : {1.0, 0.8, 0.7}) {
                CAPTURE(slides);
                CAPTURE(top_p);
                Options options;
                options.max_new_tokens = 40;
                options.slide_context = slides && !model.encodes;
                if (options.slide_context) options.max_new_tokens = 90; // beyond every model's context
                options.sample = top_p < 1.0 || slides;
                options.top_p = top_p;
                options.temperature = 0.9;
                options.sequences = options.sample ? 2 : 1;
                options.min_new_tokens = 6;
                options.eos = {3};
                if (model.encodes) options.decoder_start = 1;
                Request request{{{4, 5, 6}, {7}, {2, 3, 4, 5, 6, 7, 8}}, {}};
                Ids newest(6);
                if (top_p == 0.7) { // with biases, min_p, and rows that the caller ends
                    options.logit_bias = {{3, -0.5f}, {5, -std::numeric_limits<float>::infinity()}, {6, 0.75f}};
                    options.min_p = 0.05;
                    options.temperature = 1.4;
                    request.ended = [&](std::size_t row) { return newest[row] == 7; };
                }
                const OnToken on_token = [&](std::size_t row, int32_t token) {
                    newest[row] = token;
                    return true;
                };
                const auto own = generate::generate(*decoder.value(), request, options, on_token);
                REQUIRE_MESSAGE(own.ok(), own.message());
                const auto expected = generate::generate(host, request, options, on_token);
                REQUIRE_MESSAGE(expected.ok(), expected.message());
                REQUIRE(own->rows.size() == (options.sample ? 6 : 3));
                CHECK(own->statistics.tokens == expected->statistics.tokens);
                for (std::size_t row = 0; row < own->rows.size(); ++row) {
                    CHECK(own->rows[row].ids == expected->rows[row].ids);
                    CHECK(own->rows[row].made == expected->rows[row].made);
                }
            }
        CHECK(decoder.value()->steps_at_once(Options{}) > 0);
    }
}
