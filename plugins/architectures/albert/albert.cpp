// ALBERT (Lan et al. 2020): all layers share one set of parameters (or a few sets, one per group), and the embedding is
// narrower than the body.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, embedding_size = 0, hidden_size = 0, num_layers = 0, groups = 0, num_heads = 0,
            intermediate_size = 0, layers_per_group = 0, max_positions = 0, type_vocab_size = 0;
    std::string activation;
    double dropout = 0, attention_dropout = 0, initializer_range = 0, layer_norm_eps = 0, classifier_dropout = 0;
    std::optional<int64_t> pad_token_id;
    bool tie_embeddings = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("embedding_size", embedding_size);
        v("hidden_size", hidden_size);
        v("num_hidden_layers", num_layers);
        v("num_hidden_groups", groups);
        v("num_attention_heads", num_heads);
        v("intermediate_size", intermediate_size);
        v("inner_group_num", layers_per_group);
        v("hidden_act", activation);
        v("hidden_dropout_prob", dropout);
        v("attention_probs_dropout_prob", attention_dropout);
        v("max_position_embeddings", max_positions);
        v("type_vocab_size", type_vocab_size);
        v("initializer_range", initializer_range);
        v("layer_norm_eps", layer_norm_eps);
        v("classifier_dropout_prob", classifier_dropout);
        v("pad_token_id", pad_token_id);
        v("tie_word_embeddings", tie_embeddings);
    }
};

class Albert {
public:
    explicit Albert(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
        require(s_.groups > 0 && s_.groups <= s_.num_layers, "num_hidden_groups must be from 1 to num_hidden_layers");
    }

    void build(Graph& g) {
        Value x = embed(g, g.input("input_ids"));
        x = linear_layer(g, x, "albert.encoder.embedding_hidden_mapping_in", s_.hidden_size, layer());
        const Value padding = optional_input(g, "attention_mask");
        x = hidden_states(g, x, s_.num_layers, [&](Value in, int64_t i) {
            const std::string group = "albert.encoder.albert_layer_groups." +
                                      std::to_string(i * s_.groups / s_.num_layers) + ".albert_layers.";
            for (int64_t j = 0; j < s_.layers_per_group; ++j)
                in = block(g, in, padding, group + std::to_string(j) + ".");
            return in;
        });
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id == "mlm" || id == "pretraining") {
            const Value decoder = s_.tie_embeddings
                                      ? token_embedding(g)
                                      : g.parameter("predictions.decoder.weight", {s_.vocab_size, s_.embedding_size},
                                                    normal(s_.initializer_range));
            g.offer("logits", masked_head(g, predicted_positions(g, g.ask("hidden")), decoder,
                                          {.dense = "predictions.dense",
                                           .norm = "predictions.LayerNorm",
                                           .bias = "predictions.bias",
                                           .activation = s_.activation,
                                           .epsilon = s_.layer_norm_eps,
                                           .range = s_.initializer_range}));
            if (id == "pretraining")
                g.offer("pair_logits", linear_layer(g, drop(g, pooled(g), s_.classifier_dropout),
                                                    "sop_classifier.classifier", labels_, layer()));
        } else if (id == "classifier") {
            g.offer("logits",
                    linear_layer(g, drop(g, pooled(g), s_.classifier_dropout), "classifier", labels_, layer()));
        } else if (id == "tagger") {
            g.offer("logits",
                    linear_layer(g, drop(g, g.ask("hidden"), s_.classifier_dropout), "classifier", labels_, layer()));
        } else if (id == "pooler") {
            pooled(g);
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "albert", s_);
        write_labels(out, labels_);
    }

private:
    LayerOptions layer() const { return {.initializer = normal(s_.initializer_range)}; }
    Value token_embedding(Graph& g) {
        return g.parameter("albert.embeddings.word_embeddings.weight", {s_.vocab_size, s_.embedding_size},
                           normal(s_.initializer_range));
    }

    Value embed(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const std::string name = "albert.embeddings.";
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "max_position_embeddings");
        const Value types = g.parameter(name + "token_type_embeddings.weight", {s_.type_vocab_size, s_.embedding_size},
                                        normal(s_.initializer_range));
        const Value x =
            embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)}) +
            (g.has_field("token_type_ids") ? embedding(types, g.input("token_type_ids")) : slice(types, 0, 0, 1)) +
            embedding_layer(g, positions, name + "position_embeddings", s_.max_positions, s_.embedding_size, -1,
                            normal(s_.initializer_range));
        return drop(g, layer_norm_layer(g, x, name + "LayerNorm", s_.layer_norm_eps), s_.dropout);
    }

    Value block(Graph& g, Value x, Value padding, const std::string& name) {
        Block b;
        b.norm = NormPosition::after;
        b.attention_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "attention.LayerNorm", s_.layer_norm_eps);
        };
        b.feed_forward_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "full_layer_layer_norm", s_.layer_norm_eps);
        };
        b.attention = [&](Value in) {
            AttentionLayer a;
            a.query = name + "attention.query";
            a.key = name + "attention.key";
            a.value = name + "attention.value";
            a.output = name + "attention.dense";
            a.heads = s_.num_heads;
            a.layer = layer();
            a.options.key_padding = padding;
            a.options.dropout = attention_dropout(g, s_.attention_dropout);
            return drop(g, attention_layer(g, in, in, a), s_.dropout);
        };
        b.feed_forward = [&](Value in) { // no dropout here
            const Value y = activation(linear_layer(g, in, name + "ffn", s_.intermediate_size, layer()), s_.activation);
            return linear_layer(g, y, name + "ffn_output", s_.hidden_size, layer());
        };
        return transformer_block(g, x, b);
    }

    Value pooled(Graph& g) {
        const Value y = tanh(linear_layer(g, first_token(g.ask("hidden")), "albert.pooler", s_.hidden_size, layer()));
        g.offer("pooled", y);
        return y;
    }

    Settings s_;
    Labels labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "albert", architecture<Albert>()})
