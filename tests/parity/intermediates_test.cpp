// gpt_nano_sort inside its first block: every intermediate tensor of PyTorch (norms, queries, keys, values, scores,
// probabilities, projections, residuals, activation) against the nodes of the gpt2 plugin's graph.
#include "model/folder.hpp"
#include "parity/pretrained.hpp"
#include "program/parameter_store.hpp"
#include "support/test_folder.hpp"

#include "infer/open/model_tensors.hpp"
#include "plugin/composition/compose.hpp"
#include "program/harness.hpp"

#include <algorithm>
#include <unistd.h>

using namespace hekla;
using namespace hekla::test;
using graph::ValueId;

namespace {

// Returns the n-th node of an operation in a scope.
const graph::Node& node_in(const Graph& graph, const char* scope, Op op, int n = 0) {
    for (const graph::Node& node : graph.nodes)
        if (node.op == op && graph.scope_path(node.scope) == scope && n-- == 0) return node;
    FAIL("no such node in ", scope);
    return graph.nodes[0];
}

// Returns the model's graph with PyTorch's intermediate tensors as outputs, under PyTorch's names.
Graph named(const Graph& described) {
    const char *attention = "block.0/attention", *mlp = "block.0/mlp";
    const graph::Node& cached = node_in(described, attention, Op::attention);
    const ValueId q = cached.inputs[0], k = cached.inputs[1], v = cached.inputs[2];
    const graph::Node &qkv = node_in(described, attention, Op::linear, 0),
                      &projection = node_in(described, attention, Op::linear, 1),
                      &fc = node_in(described, mlp, Op::linear, 0), &down = node_in(described, mlp, Op::linear, 1);
    const double scale = cached.real("scale");
    graph::Builder b(described);
    const std::pair<const char*, ValueId> outputs[] = {
        {"pos_emb", node_in(described, "embedding", Op::embedding, 0).outputs[0]},
        {"tok_emb", node_in(described, "embedding", Op::embedding, 1).outputs[0]},
        {"x", node_in(described, "embedding", Op::add).outputs[0]},
        {"ln1", qkv.inputs[0]},
        {"qkv", qkv.outputs[0]},
        {"q", q},
        {"k", k},
        {"v", v},
        {"y", projection.inputs[0]},
        {"yProj", projection.outputs[0]},
        {"attnResid", node_in(described, "block.0", Op::add, 0).outputs[0]},
        {"ln2", fc.inputs[0]},
        {"fc", fc.outputs[0]},
        {"gelu", down.inputs[0]},
        {"mlp", down.outputs[0]},
        {"mlpResid", node_in(described, "block.0", Op::add, 1).outputs[0]},
        {"block0", node_in(described, "block.0", Op::add, 1).outputs[0]},
        {"block1", node_in(described, "block.1", Op::add, 1).outputs[0]},
        {"block2", node_in(described, "block.2", Op::add, 1).outputs[0]},
        {"ln_f", node_in(described, "", Op::layer_norm).outputs[0]},
        {"lm_head", node_in(described, "", Op::linear).outputs[0]}};
    // Attention does not store its scores, so they are computed here from its queries and keys.
    const int64_t length = b.shape(q)[2];
    const ValueId products = b(Op::matmul, {q, k}, {{"transpose_b", int64_t{1}}});
    const ValueId scores = b(Op::mul, {products, b.scalar(scale)});
    const ValueId ahead = b(Op::compare,
                            {b(Op::reshape, {b.iota(length)}, {{"shape", std::vector<int64_t>{1, length}}}),
                             b(Op::reshape, {b.iota(length)}, {{"shape", std::vector<int64_t>{length, 1}}})},
                            {{"relation", static_cast<int64_t>(graph::Relation::greater)}});
    const ValueId masked = b(Op::where, {ahead, b.scalar(-1e30), scores});
    b.output("att", masked);
    b.output("attSm", b(Op::softmax, {masked}));
    b.output("probs", b(Op::softmax, {outputs[20].second}));
    for (const auto& [name, value] : outputs) b.output(name, value);
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

} // namespace

TEST_CASE("gpt_nano_sort: every tensor inside the first block equals PyTorch's") {
    const fs::path folder = pretrained() / "gpt_nano_sort";
    if (!fs::exists(folder)) {
        MESSAGE("skipped: there is no ", folder.string());
        return;
    }
    const model::SafetensorsFile weights = open(folder / "model.safetensors");
    const model::SafetensorsFile partials = open(folder / "partials.safetensors");
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    plugin::CompositionSpec spec;
    spec.architecture = "gpt2";
    spec.config = nano_sort_config();
    spec.head = "lm";
    spec.refuse_unknown_keys = false;
    const auto composition = plugin::Composition::create(registry, spec, nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    const model::TensorView& idx = get(partials, "idx");
    const plugin::BatchField field{"input_ids", Kind::int32, Shape(idx.dims)};
    auto described = composition.value()->build(HK_MODE_EVALUATE, std::span(&field, 1));
    REQUIRE_MESSAGE(described.ok(), described.message());
    const Graph graph = named(described.value());

    graph::Feeds feeds;
    const std::vector<float> ids = floats(idx);
    feeds.fields["input_ids"] = {Kind::int32, Shape(idx.dims), {ids.begin(), ids.end()}};
    for (const auto& [name, tensor] : gpt2_from_mingpt(weights)) {
        if (graph.find_leaf(Op::parameter, name) == graph::kNone) continue; // minGPT also stores its causal mask
        std::vector<float> values(tensor.bytes.size() / 4);
        std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
        feeds.parameters[name] = {Kind::float_, Shape(tensor.dims), {values.begin(), values.end()}};
    }
    Bench bench;
    const std::pair<const char*, Outcome> sides[] = {{"interpreter", run_in_interpreter(graph, feeds)},
                                                     {"device", run_on_device(*bench, graph, feeds, {})}};
    for (const auto& [side, outcome] : sides) {
        std::size_t compared = 0;
        for (const model::TensorView& view : partials.tensors()) {
            if (view.name == "idx") continue;
            CAPTURE(side);
            CAPTURE(view.name);
            const std::vector<float> expected = floats(view);
            REQUIRE(outcome.contains(view.name));
            const std::vector<double>& got = outcome.at(view.name).data;
            // The reference has one row of positions, we have one per row of the batch.
            REQUIRE(got.size() % expected.size() == 0);
            double largest = 0, error = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
                const auto e = static_cast<double>(expected[i % expected.size()]);
                if (std::isinf(e)) { // masked: -infinity in PyTorch, -1e30 here
                    CHECK(got[i] < -1e29);
                    continue;
                }
                largest = std::max(largest, std::abs(e));
                error = std::max(error, std::abs(got[i] - e));
            }
            CHECK(error <= 1e-5 * largest);
            ++compared;
        }
        CHECK(compared == 24);
    }
}

TEST_CASE("capp_gpt2: after loading, saving and loading again every byte is the same") {
    const fs::path source = pretrained() / "capp_gpt2";
    if (!fs::exists(source)) {
        MESSAGE("skipped: there is no ", source.string());
        return;
    }
    const auto opened = model::ModelFolder::open(source);
    REQUIRE_MESSAGE(opened.ok(), opened.message());
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    plugin::CompositionSpec spec;
    spec.architecture = "gpt2";
    spec.config = nlohmann::json::parse(opened->config_json());
    spec.head = "lm";
    spec.refuse_unknown_keys = false;
    const auto composition = plugin::Composition::create(registry, spec, nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    const plugin::BatchField field{"input_ids", Kind::int32, Shape{1, 1}};
    const auto graph = composition.value()->build(HK_MODE_EVALUATE, std::span(&field, 1));
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    Bench bench;
    auto store = program::ParameterStore::create(*bench, program::parameter_table(graph.value()));
    REQUIRE_MESSAGE(store.ok(), store.message());
    const auto load = [&](const model::Weights& weights) {
        const auto found = plugin::find_tensors(graph.value(), weights,
                                                plugin::model_rules(composition.value()->architecture().names));
        REQUIRE_MESSAGE(found.ok(), found.message());
        for (const plugin::StoredTensor& tensor : found.value()) REQUIRE(infer::upload(*store.value(), tensor).ok());
    };
    const TestFolder target;
    const auto save = [&](const char* name) {
        model::ModelContents contents;
        const auto config = composition.value()->write_config();
        REQUIRE_MESSAGE(config.ok(), config.message());
        contents.config_json = config.value();
        contents.tensors = infer::tensor_sources(*store.value(), graph.value());
        const Status saved = model::save_folder(target / name, contents);
        REQUIRE_MESSAGE(saved.ok(), saved.message());
        auto again = model::ModelFolder::open(target / name);
        REQUIRE_MESSAGE(again.ok(), again.message());
        return again.take();
    };
    load(opened->weights());
    {
        const model::ModelFolder first = save("first");
        std::size_t compared = 0;
        for (const model::TensorView& tensor : opened->weights().tensors()) {
            const model::TensorView* ours = first.weights().find(tensor.name);
            if (ours == nullptr) continue; // a mask in files of older versions
            CAPTURE(tensor.name);
            REQUIRE(tensor.dtype == model::DType::f32);
            CHECK(ours->dims == tensor.dims);
            CHECK(std::ranges::equal(ours->bytes, tensor.bytes));
            ++compared;
        }
        CHECK(compared == first.weights().tensors().size());
        load(first.weights());
        const model::ModelFolder second = save("second");
        CHECK(text_of(target / "second" / "model.safetensors") == text_of(target / "first" / "model.safetensors"));
        CHECK(second.config_json() == first.config_json());
    }
}
