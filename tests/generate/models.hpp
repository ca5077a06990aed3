// Small models of built-in architectures with random weights.
#pragma once

#include "generate/decoder.hpp"
#include "plugin/composition/compose.hpp"

#include "support.hpp"

#include <memory>
#include <random>

namespace hekla::test {

using generate::Fields;
using graph::Graph;
using graph::Kind;
using graph::Shape;
using graph::Tensor;
using nlohmann::json;

inline const std::string kLogits[] = {"logits"};
inline constexpr int64_t kVocabulary = 37;

struct Model {
    const char* architecture;
    json config;
    bool encodes = false;
};

inline std::vector<Model> models() {
    return {
        {"gpt2", {{"vocab_size", 37}, {"n_positions", 48}, {"n_embd", 24}, {"n_layer", 2}, {"n_head", 3}}},
        {"llama",
         {{"vocab_size", 37},
          {"hidden_size", 24},
          {"intermediate_size", 40},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 48}}},
        {"t5",
         {{"vocab_size", 37},
          {"d_model", 24},
          {"d_kv", 6},
          {"d_ff", 40},
          {"num_layers", 2},
          {"num_heads", 4},
          {"relative_attention_num_buckets", 8},
          {"relative_attention_max_distance", 12}},
         true},
        {"bart",
         {{"vocab_size", 37},
          {"d_model", 24},
          {"encoder_layers", 2},
          {"decoder_layers", 2},
          {"encoder_attention_heads", 3},
          {"decoder_attention_heads", 3},
          {"encoder_ffn_dim", 40},
          {"decoder_ffn_dim", 40},
          {"max_position_embeddings", 48}},
         true},
    };
}

inline std::unique_ptr<plugin::Composition> compose(const plugin::Registry& registry, const Model& model) {
    plugin::CompositionSpec spec;
    spec.architecture = model.architecture;
    spec.config = model.config;
    spec.head = "lm";
    auto composition = plugin::Composition::create(registry, spec, nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    return composition.take();
}

inline Fields random_weights(const Graph& graph, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    Fields weights;
    for (const auto& [name, value] : graph.parameters()) {
        Tensor tensor{Kind::float_, graph.shape(value), {}};
        for (int64_t i = 0; i < tensor.shape.elements(); ++i)
            tensor.data.push_back(static_cast<float>(normal(random) * (tensor.shape.rank() > 1 ? 0.4 : 1.0)));
        weights.emplace(name, std::move(tensor));
    }
    return weights;
}

inline Ids some_ids(int length, int seed) {
    Ids ids;
    for (int i = 0; i < length; ++i) ids.push_back((i * 11 + seed * 5 + i * i * seed) % static_cast<int>(kVocabulary));
    return ids;
}

} // namespace hekla::test
