// ALBERT (Lan et al. 2020): one layer's parameters used at every depth (or a few groups of them), and an embedding
// narrower than the body.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, embedding = 0, width = 0, layers = 0, groups = 0, heads = 0, inner = 0, inner_layers = 0,
            positions = 0, types = 0;
    std::string activation;
    double dropout = 0, attention_dropout = 0, range = 0, epsilon = 0, classifier_dropout = 0;
    std::optional<int64_t> pad;
    bool tied = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("embedding_size", embedding);
        v("hidden_size", width);
        v("num_hidden_layers", layers);
        v("num_hidden_groups", groups);
        v("num_attention_heads", heads);
        v("intermediate_size", inner);
        v("inner_group_num", inner_layers);
        v("hidden_act", activation);
        v("hidden_dropout_prob", dropout);
        v("attention_probs_dropout_prob", attention_dropout);
        v("max_position_embeddings", positions);
        v("type_vocab_size", types);
        v("initializer_range", range);
        v("layer_norm_eps", epsilon);
        v("classifier_dropout_prob", classifier_dropout);
        v("pad_token_id", pad);
        v("tie_word_embeddings", tied);
    }
};

class Albert {
public:
    explicit Albert(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.width, s_.heads, "hidden_size", "num_attention_heads");
        require(s_.groups > 0 && s_.groups <= s_.layers, "num_hidden_groups must be from 1 to num_hidden_layers");
    }

    void build(Graph& g) {
        Value x = embed(g, g.input("input_ids"));
        x = linear_layer(g, x, "albert.encoder.embedding_hidden_mapping_in", s_.width, layer());
        g.offer("layer.0.hidden", x);
        const Value padding = optional_input(g, "attention_mask");
        for (int64_t i = 0; i < s_.layers; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            const std::string group =
                "albert.encoder.albert_layer_groups." + std::to_string(i * s_.groups / s_.layers) + ".albert_layers.";
            for (int64_t j = 0; j < s_.inner_layers; ++j) x = block(g, x, padding, group + std::to_string(j) + ".");
            g.offer("layer." + std::to_string(i + 1) + ".hidden", x);
        }
        g.offer("hidden", x);
        g.offer("embedding.weight", words(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id == "mlm" || id == "pretraining") {
            const Value decoder =
                s_.tied ? words(g)
                        : g.parameter("predictions.decoder.weight", {s_.vocabulary, s_.embedding}, normal(s_.range));
            g.offer("logits", masked_head(g, predicted_places(g, g.ask("hidden")), decoder,
                                          {.dense = "predictions.dense",
                                           .norm = "predictions.LayerNorm",
                                           .bias = "predictions.bias",
                                           .activation = s_.activation,
                                           .epsilon = s_.epsilon,
                                           .range = s_.range}));
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
    LayerOptions layer() const { return {.initializer = normal(s_.range)}; }
    Value words(Graph& g) {
        return g.parameter("albert.embeddings.word_embeddings.weight", {s_.vocabulary, s_.embedding}, normal(s_.range));
    }

    Value embed(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const std::string name = "albert.embeddings.";
        const Value places = position_ids(g, ids.dim(0), ids.dim(1), s_.positions, "max_position_embeddings");
        const Value types =
            g.parameter(name + "token_type_embeddings.weight", {s_.types, s_.embedding}, normal(s_.range));
        const Value x =
            embedding(words(g), ids, {.no_gradient_id = s_.pad.value_or(-1)}) +
            (g.has_field("token_type_ids") ? embedding(types, g.input("token_type_ids")) : slice(types, 0, 0, 1)) +
            embedding_layer(g, places, name + "position_embeddings", s_.positions, s_.embedding, -1, normal(s_.range));
        return drop(g, layer_norm_layer(g, x, name + "LayerNorm", s_.epsilon), s_.dropout);
    }

    Value block(Graph& g, Value x, Value padding, const std::string& name) {
        Block b;
        b.norm = NormPlace::after;
        b.attention_norm = [&](Value in) { return layer_norm_layer(g, in, name + "attention.LayerNorm", s_.epsilon); };
        b.feed_forward_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "full_layer_layer_norm", s_.epsilon);
        };
        b.attention = [&](Value in) {
            AttentionLayer a;
            a.query = name + "attention.query";
            a.key = name + "attention.key";
            a.value = name + "attention.value";
            a.output = name + "attention.dense";
            a.heads = s_.heads;
            a.layer = layer();
            a.options.key_padding = padding;
            a.options.dropout = attention_dropout(g, s_.attention_dropout);
            return drop(g, attention_layer(g, in, in, a), s_.dropout);
        };
        b.feed_forward = [&](Value in) { // nothing is dropped here
            const Value y = activation(linear_layer(g, in, name + "ffn", s_.inner, layer()), s_.activation);
            return linear_layer(g, y, name + "ffn_output", s_.width, layer());
        };
        return transformer_block(g, x, b);
    }

    Value pooled(Graph& g) {
        const Value y = tanh(linear_layer(g, first_token(g.ask("hidden")), "albert.pooler", s_.width, layer()));
        g.offer("pooled", y);
        return y;
    }

    Settings s_;
    Labels labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "albert", architecture<Albert>()})
