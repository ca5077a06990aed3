// DistilBERT (Sanh et al. 2019): BERT's body without segments and pooler, half as deep.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, max_positions = 0, num_layers = 0, num_heads = 0, hidden_size = 0, intermediate_size = 0;
    double dropout = 0, attention_dropout = 0, initializer_range = 0, classifier_dropout = 0;
    std::string activation;
    std::optional<int64_t> pad_token_id;
    bool sinusoidal = false, tie_embeddings = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("max_position_embeddings", max_positions);
        v("sinusoidal_pos_embds", sinusoidal);
        v("n_layers", num_layers);
        v("n_heads", num_heads);
        v("dim", hidden_size);
        v("hidden_dim", intermediate_size);
        v("dropout", dropout);
        v("attention_dropout", attention_dropout);
        v("activation", activation);
        v("initializer_range", initializer_range);
        v("seq_classif_dropout", classifier_dropout);
        v("pad_token_id", pad_token_id);
        v("tie_word_embeddings", tie_embeddings);
    }
};

class DistilBert {
public:
    explicit DistilBert(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.hidden_size, s_.num_heads, "dim", "n_heads");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        Value x = embed(g, ids);
        const Value padding = optional_input(g, "attention_mask");
        x = hidden_states(g, x, s_.num_layers, [&](Value in, int64_t i) { return block(g, in, padding, i); });
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        if (id == "mlm") {
            const Value decoder = s_.tie_embeddings
                                      ? token_embedding(g)
                                      : g.parameter("vocab_projector.weight", {s_.vocab_size, s_.hidden_size},
                                                    normal(s_.initializer_range));
            g.offer("logits", masked_head(g, predicted_positions(g, g.ask("hidden")), decoder,
                                          {.dense = "vocab_transform",
                                           .norm = "vocab_layer_norm",
                                           .bias = "vocab_projector.bias",
                                           .activation = s_.activation,
                                           .range = s_.initializer_range}));
        } else if (id == "classifier") {
            const Value y =
                relu(linear_layer(g, first_token(g.ask("hidden")), "pre_classifier", s_.hidden_size, layer));
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
    Value token_embedding(Graph& g) {
        return g.parameter("distilbert.embeddings.word_embeddings.weight", {s_.vocab_size, s_.hidden_size},
                           normal(s_.initializer_range));
    }

    // sinusoidal_pos_embds only affects the initial position table; the files contain the table.
    Value embed(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "max_position_embeddings");
        const Value x = embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)}) +
                        embedding_layer(g, positions, "distilbert.embeddings.position_embeddings", s_.max_positions,
                                        s_.hidden_size, -1, normal(s_.initializer_range));
        return drop(g, layer_norm_layer(g, x, "distilbert.embeddings.LayerNorm", kEpsilon), s_.dropout);
    }

    Value block(Graph& g, Value x, Value padding, int64_t index) {
        const std::string name = "distilbert.transformer.layer." + std::to_string(index) + ".";
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        Block b;
        b.norm = NormPosition::after;
        b.attention_norm = [&](Value in) { return layer_norm_layer(g, in, name + "sa_layer_norm", kEpsilon); };
        b.feed_forward_norm = [&](Value in) { return layer_norm_layer(g, in, name + "output_layer_norm", kEpsilon); };
        b.attention = [&](Value in) {
            AttentionLayer a;
            a.query = name + "attention.q_lin";
            a.key = name + "attention.k_lin";
            a.value = name + "attention.v_lin";
            a.output = name + "attention.out_lin";
            a.heads = s_.num_heads;
            a.layer = layer;
            a.options.key_padding = padding;
            a.options.dropout = attention_dropout(g, s_.attention_dropout);
            return attention_layer(g, in, in, a);
        };
        b.feed_forward = [&](Value in) {
            const Value y =
                activation(linear_layer(g, in, name + "ffn.lin1", s_.intermediate_size, layer), s_.activation);
            return drop(g, linear_layer(g, y, name + "ffn.lin2", s_.hidden_size, layer), s_.dropout);
        };
        return transformer_block(g, x, b); // the reference has no dropout after attention
    }

    static constexpr double kEpsilon = 1e-12;
    Settings s_;
    Labels labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "distilbert", architecture<DistilBert>()})
