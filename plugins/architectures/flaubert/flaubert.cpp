// FlauBERT (Le et al. 2020), the encoder of XLM (Conneau and Lample 2019): pre- or post-norm, with padding set to zero
// after every block.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, num_layers = 0, num_heads = 0, max_positions = 0, languages = 0;
    double dropout = 0, attention_dropout = 0, layer_drop = 0, layer_norm_eps = 0, initializer_range = 0,
           embedding_range = 0;
    bool norm_before = false, gelu = true, causal = false, use_languages = true, tie_embeddings = true;
    std::optional<int64_t> pad_token_id;

    template<class V>
    void keys(V&& v) {
        v("pre_norm", norm_before);
        v("layerdrop", layer_drop);
        v("vocab_size", vocab_size);
        v("emb_dim", hidden_size);
        v("n_layers", num_layers);
        v("n_heads", num_heads);
        v("dropout", dropout);
        v("attention_dropout", attention_dropout);
        v("gelu_activation", gelu);
        v("causal", causal);
        v("n_langs", languages);
        v("use_lang_emb", use_languages);
        v("max_position_embeddings", max_positions);
        v("embed_init_std", embedding_range);
        v("layer_norm_eps", layer_norm_eps);
        v("init_std", initializer_range);
        v("pad_token_id", pad_token_id);
        v("tie_word_embeddings", tie_embeddings);
    }
};

class Flaubert {
public:
    explicit Flaubert(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.hidden_size, s_.num_heads, "emb_dim", "n_heads");
        if (c.boolean("asm", false)) throw unsupported("the adaptive softmax (asm) is not known");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        // Without a mask, the length of a row is the number of its tokens that are not padding.
        const Value lengths = sum(not_equal(ids, static_cast<double>(s_.pad_token_id.value_or(-1))), {1}, {.keep = 1});
        const Value mask = g.has_field("attention_mask") ? g.input("attention_mask")
                                                         : less(broadcast(g.iota(ids.dim(1)), ids.shape()), lengths);
        const Value keep = reshape(to_float(mask), {ids.dim(0), ids.dim(1), 1});
        Value x = embed(g, ids) * keep;
        x = hidden_states(g, x, s_.num_layers, [&](Value in, int64_t i) {
            return layer_drop(g, in, block(g, in, mask, i) * keep, s_.layer_drop);
        });
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        if (id == "mlm" || id == "lm") {
            const Value decoder = s_.tie_embeddings
                                      ? token_embedding(g)
                                      : g.parameter("pred_layer.proj.weight", {s_.vocab_size, s_.hidden_size},
                                                    normal(s_.initializer_range));
            g.offer("logits", linear(predicted_positions(g, g.ask("hidden")), decoder,
                                     {.bias = g.parameter("pred_layer.proj.bias", {s_.vocab_size})}));
            return true;
        }
        if (id == "tagger") {
            g.offer("logits", linear_layer(g, drop(g, g.ask("hidden"), s_.dropout), "classifier", labels_, layer));
            return true;
        }
        return false;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "flaubert", s_);
        write_labels(out, labels_);
    }

private:
    Value token_embedding(Graph& g) {
        return g.parameter("transformer.embeddings.weight", {s_.vocab_size, s_.hidden_size},
                           normal(s_.embedding_range));
    }

    Value embed(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const Initializer embedding_init = normal(s_.embedding_range);
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "max_position_embeddings");
        Value x = embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)}) +
                  embedding_layer(g, positions, "transformer.position_embeddings", s_.max_positions, s_.hidden_size, -1,
                                  embedding_init);
        if (s_.languages > 1 && s_.use_languages) {
            const Value table =
                g.parameter("transformer.lang_embeddings.weight", {s_.languages, s_.hidden_size}, embedding_init);
            if (g.has_field("langs")) x = x + embedding(table, g.input("langs"));
        }
        if (g.has_field("token_type_ids")) // segments use the token embedding too
            x = x + embedding(token_embedding(g), g.input("token_type_ids"),
                              {.no_gradient_id = s_.pad_token_id.value_or(-1)});
        return drop(g, layer_norm_layer(g, x, "transformer.layer_norm_emb", s_.layer_norm_eps), s_.dropout);
    }

    Value block(Graph& g, Value x, Value mask, int64_t index) {
        const std::string i = std::to_string(index), attention = "transformer.attentions." + i,
                          inner = "transformer.ffns." + i;
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        Block b;
        b.norm = s_.norm_before ? NormPosition::before : NormPosition::after;
        b.attention_norm = [&](Value in) {
            return layer_norm_layer(g, in, "transformer.layer_norm1." + i, s_.layer_norm_eps);
        };
        b.feed_forward_norm = [&](Value in) {
            return layer_norm_layer(g, in, "transformer.layer_norm2." + i, s_.layer_norm_eps);
        };
        b.attention = [&](Value in) {
            AttentionLayer a;
            a.query = attention + ".q_lin";
            a.key = attention + ".k_lin";
            a.value = attention + ".v_lin";
            a.output = attention + ".out_lin";
            a.heads = s_.num_heads;
            a.layer = layer;
            if (s_.causal) // the reference then applies only the causal mask, not the padding mask
                a.options.causal = 1;
            else
                a.options.key_padding = mask;
            a.options.dropout = attention_dropout(g, s_.attention_dropout);
            return attention_layer(g, in, in, a);
        };
        b.feed_forward = [&](Value in) {
            const Value y = linear_layer(g, in, inner + ".lin1", 4 * s_.hidden_size, layer);
            return linear_layer(g, s_.gelu ? gelu(y) : relu(y), inner + ".lin2", s_.hidden_size, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }

    Settings s_;
    Labels labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "flaubert", architecture<Flaubert>()})
