// Heads that read all layers of a body, combined with learned weights as in ELMo.
#include "bench.hpp"

#include "graph/reference.hpp"

#include <cmath>

namespace body_states_test {

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr int64_t kRows = 2, kLength = 5, kHidden = 4, kClasses = 3;

Result<graph::Graph> tagger_on(const json& body, const std::string& port, const std::vector<std::string>& ports) {
    plugin::CompositionSpec spec;
    spec.architecture = "bilstm_lm";
    spec.config = body;
    spec.head = "tagger";
    spec.head_config = json{{"port", port}, {"num_labels", kClasses}, {"dropout", 0.0}};
    HK_ASSIGN(const auto composition, plugin::Composition::create(registry(), spec, nullptr));
    const std::vector<plugin::BatchField> fields{{"input_ids", graph::Kind::int32, graph::Shape{kRows, kLength}},
                                                 {"attention_mask", graph::Kind::int32, graph::Shape{kRows, kLength}}};
    return composition->build(HK_MODE_EVALUATE, fields, ports);
}

const json kBody{{"vocab_size", 11}, {"embedding_size", kHidden}, {"hidden_size", kHidden}, {"layers", 2}};

} // namespace

TEST_CASE("port = mix: gamma times the sum of the layers weighted by the softmax of the learned scores") {
    const std::vector<std::string> layers{"layer.0.hidden", "layer.1.hidden", "layer.2.hidden"};
    std::vector<std::string> ports = layers;
    ports.emplace_back("logits");
    auto graph = tagger_on(kBody, "mix", ports);
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    graph::Feeds feeds;
    uint64_t state = 7;
    const auto next = [&state] {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<double>(state >> 40) / static_cast<double>(1 << 24) - 0.5;
    };
    for (const auto& [name, value] : graph->parameters()) {
        graph::Tensor values{graph::Kind::float32, graph->shape(value), {}};
        values.data.resize(static_cast<std::size_t>(values.shape.elements()));
        for (double& x : values.data) x = next();
        feeds.parameters[name] = std::move(values);
    }
    REQUIRE(feeds.parameters.contains("head.mix.weights"));
    CHECK(feeds.parameters.at("head.mix.weights").shape == graph::Shape{3});
    graph::Tensor ids{graph::Kind::int32, graph::Shape{kRows, kLength}, {3, 1, 4, 1, 5, 9, 2, 6, 0, 0}};
    graph::Tensor mask{graph::Kind::int32, graph::Shape{kRows, kLength}, {1, 1, 1, 1, 1, 1, 1, 1, 0, 0}};
    feeds.fields["input_ids"] = std::move(ids);
    feeds.fields["attention_mask"] = std::move(mask);
    std::vector<graph::ValueId> wanted;
    for (const std::string& port : ports) wanted.push_back(graph->outputs.at(port));
    auto evaluated = graph::evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(evaluated.ok(), evaluated.message());

    const auto& w = feeds.parameters.at("head.mix.weights").data;
    const double gamma = feeds.parameters.at("head.mix.gamma").data[0];
    const double sum = std::exp(w[0]) + std::exp(w[1]) + std::exp(w[2]);
    const auto& weight = feeds.parameters.at("head.tagger.weight").data;
    const auto& bias = feeds.parameters.at("head.tagger.bias").data;
    const auto& logits = evaluated->back().data;
    REQUIRE(logits.size() == kRows * kLength * kClasses);
    for (std::size_t token = 0; token < kRows * kLength; ++token)
        for (std::size_t label = 0; label < kClasses; ++label) {
            double expected = bias[label];
            for (std::size_t u = 0; u < 2 * kHidden; ++u) {
                double mixed = 0;
                for (std::size_t l = 0; l < layers.size(); ++l)
                    mixed += std::exp(w[l]) / sum * evaluated.value()[l].data[token * 2 * kHidden + u];
                expected += gamma * mixed * weight[label * 2 * kHidden + u];
            }
            CHECK(logits[token * kClasses + label] == doctest::Approx(expected).epsilon(1e-9));
        }
}

TEST_CASE("port = mix is rejected if layers have different widths") {
    json narrow = kBody;
    narrow["embedding_size"] = 3;
    const Status status = tagger_on(narrow, "mix", {}).status();
    CHECK_MESSAGE(status.message().find("layer.1.hidden has 8 features and layer.0.hidden has 6") != std::string::npos,
                  status.message());
}

} // namespace body_states_test
