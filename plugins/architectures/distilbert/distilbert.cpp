// DistilBERT (Sanh et al. 2019): BERT's body without segments and pooler, half as deep.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, positions = 0, layers = 0, heads = 0, width = 0, inner = 0;
    double dropout = 0, attention_dropout = 0, range = 0, classifier_dropout = 0;
    std::string activation;
    std::optional<int64_t> pad;
    bool sinusoidal = false, tied = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("max_position_embeddings", positions);
        v("sinusoidal_pos_embds", sinusoidal);
        v("n_layers", layers);
        v("n_heads", heads);
        v("dim", width);
        v("hidden_dim", inner);
        v("dropout", dropout);
        v("attention_dropout", attention_dropout);
        v("activation", activation);
        v("initializer_range", range);
        v("seq_classif_dropout", classifier_dropout);
        v("pad_token_id", pad);
        v("tie_word_embeddings", tied);
    }
};

class DistilBert {
public:
    explicit DistilBert(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.width, s_.heads, "dim", "n_heads");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        Value x = embed(g, ids);
        g.offer("layer.0.hidden", x);
        const Value padding = optional_input(g, "attention_mask");
        for (int64_t i = 0; i < s_.layers; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            x = block(g, x, padding, i);
            g.offer("layer." + std::to_string(i + 1) + ".hidden", x);
        }
        g.offer("hidden", x);
        g.offer("embedding.weight", words(g));
    }

    bool head(Graph& g, std::string_view id) {
        const LayerOptions layer{.initializer = normal(s_.range)};
        if (id == "mlm") {
            const Value decoder =
                s_.tied ? words(g) : g.parameter("vocab_projector.weight", {s_.vocabulary, s_.width}, normal(s_.range));
            g.offer("logits", masked_head(g, predicted_places(g, g.ask("hidden")), decoder,
                                          {.dense = "vocab_transform",
                                           .norm = "vocab_layer_norm",
                                           .bias = "vocab_projector.bias",
                                           .activation = s_.activation,
                                           .range = s_.range}));
        } else if (id == "classifier") {
            const Value y = relu(linear_layer(g, first_token(g.ask("hidden")), "pre_classifier", s_.width, layer));
            g.offer("logits", linear_layer(g, drop(g, y, s_.classifier_dropout), "classifier", labels_, layer));
        } else if (id == "tagger") {
            g.offer("logits", linear_layer(g, drop(g, g.ask("hidden"), s_.dropout), "classifier", labels_, layer));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "distilbert", s_);
        write_labels(out, labels_);
    }

private:
    Value words(Graph& g) {
        return g.parameter("distilbert.embeddings.word_embeddings.weight", {s_.vocabulary, s_.width}, normal(s_.range));
    }

    // sinusoidal_pos_embds only says how the table of positions began; the files hold it.
    Value embed(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const Value places = position_ids(g, ids.dim(0), ids.dim(1), s_.positions, "max_position_embeddings");
        const Value x = embedding(words(g), ids, {.no_gradient_id = s_.pad.value_or(-1)}) +
                        embedding_layer(g, places, "distilbert.embeddings.position_embeddings", s_.positions, s_.width,
                                        -1, normal(s_.range));
        return drop(g, layer_norm_layer(g, x, "distilbert.embeddings.LayerNorm", kEpsilon), s_.dropout);
    }

    Value block(Graph& g, Value x, Value padding, int64_t index) {
        const std::string name = "distilbert.transformer.layer." + std::to_string(index) + ".";
        const LayerOptions layer{.initializer = normal(s_.range)};
        Block b;
        b.norm = NormPlace::after;
        b.attention_norm = [&](Value in) { return layer_norm_layer(g, in, name + "sa_layer_norm", kEpsilon); };
        b.feed_forward_norm = [&](Value in) { return layer_norm_layer(g, in, name + "output_layer_norm", kEpsilon); };
        b.attention = [&](Value in) {
            AttentionLayer a;
            a.query = name + "attention.q_lin";
            a.key = name + "attention.k_lin";
            a.value = name + "attention.v_lin";
            a.output = name + "attention.out_lin";
            a.heads = s_.heads;
            a.layer = layer;
            a.options.key_padding = padding;
            a.options.dropout = attention_dropout(g, s_.attention_dropout);
            return attention_layer(g, in, in, a);
        };
        b.feed_forward = [&](Value in) {
            const Value y = activation(linear_layer(g, in, name + "ffn.lin1", s_.inner, layer), s_.activation);
            return drop(g, linear_layer(g, y, name + "ffn.lin2", s_.width, layer), s_.dropout);
        };
        return transformer_block(g, x, b); // the reference drops nothing after attention
    }

    static constexpr double kEpsilon = 1e-12;
    Settings s_;
    Labels labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "distilbert", architecture<DistilBert>()})
