// FlauBERT (Le et al. 2020), the encoder of XLM (Conneau and Lample 2019): norms after or before, padding set to zero
// after every block.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0, layers = 0, heads = 0, positions = 0, languages = 0;
    double dropout = 0, attention_dropout = 0, layer_drop = 0, epsilon = 0, range = 0, embedding_range = 0;
    bool norm_before = false, gelu = true, causal = false, use_languages = true, tied = true;
    std::optional<int64_t> pad;

    template<class V>
    void keys(V&& v) {
        v("pre_norm", norm_before);
        v("layerdrop", layer_drop);
        v("vocab_size", vocabulary);
        v("emb_dim", width);
        v("n_layers", layers);
        v("n_heads", heads);
        v("dropout", dropout);
        v("attention_dropout", attention_dropout);
        v("gelu_activation", gelu);
        v("causal", causal);
        v("n_langs", languages);
        v("use_lang_emb", use_languages);
        v("max_position_embeddings", positions);
        v("embed_init_std", embedding_range);
        v("layer_norm_eps", epsilon);
        v("init_std", range);
        v("pad_token_id", pad);
        v("tie_word_embeddings", tied);
    }
};

class Flaubert {
public:
    explicit Flaubert(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.width, s_.heads, "emb_dim", "n_heads");
        if (c.boolean("asm", false)) throw unsupported("the adaptive softmax (asm) is not known");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        // Without a mask, the number of tokens that are not padding says how long a row is.
        const Value lengths = sum(not_equal(ids, static_cast<double>(s_.pad.value_or(-1))), {1}, {.keep = 1});
        const Value real = g.has_field("attention_mask") ? g.input("attention_mask")
                                                         : less(broadcast(g.iota(ids.dim(1)), ids.shape()), lengths);
        const Value keep = reshape(to_float(real), {ids.dim(0), ids.dim(1), 1});
        Value x = embed(g, ids) * keep;
        g.offer("layer.0.hidden", x);
        for (int64_t i = 0; i < s_.layers; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            x = layer_drop(g, x, block(g, x, real, i) * keep, s_.layer_drop);
            g.offer("layer." + std::to_string(i + 1) + ".hidden", x);
        }
        g.offer("hidden", x);
        g.offer("embedding.weight", words(g));
    }

    bool head(Graph& g, std::string_view id) {
        const LayerOptions layer{.initializer = normal(s_.range)};
        if (id == "mlm" || id == "lm") {
            const Value decoder =
                s_.tied ? words(g) : g.parameter("pred_layer.proj.weight", {s_.vocabulary, s_.width}, normal(s_.range));
            g.offer("logits", linear(predicted_places(g, g.ask("hidden")), decoder,
                                     {.bias = g.parameter("pred_layer.proj.bias", {s_.vocabulary})}));
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
    Value words(Graph& g) {
        return g.parameter("transformer.embeddings.weight", {s_.vocabulary, s_.width}, normal(s_.embedding_range));
    }

    Value embed(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const Initializer wide = normal(s_.embedding_range);
        const Value places = position_ids(g, ids.dim(0), ids.dim(1), s_.positions, "max_position_embeddings");
        Value x = embedding(words(g), ids, {.no_gradient_id = s_.pad.value_or(-1)}) +
                  embedding_layer(g, places, "transformer.position_embeddings", s_.positions, s_.width, -1, wide);
        if (s_.languages > 1 && s_.use_languages) {
            const Value table = g.parameter("transformer.lang_embeddings.weight", {s_.languages, s_.width}, wide);
            if (g.has_field("langs")) x = x + embedding(table, g.input("langs"));
        }
        if (g.has_field("token_type_ids")) // segments are words too
            x = x + embedding(words(g), g.input("token_type_ids"), {.no_gradient_id = s_.pad.value_or(-1)});
        return drop(g, layer_norm_layer(g, x, "transformer.layer_norm_emb", s_.epsilon), s_.dropout);
    }

    Value block(Graph& g, Value x, Value real, int64_t index) {
        const std::string i = std::to_string(index), attention = "transformer.attentions." + i,
                          inner = "transformer.ffns." + i;
        const LayerOptions layer{.initializer = normal(s_.range)};
        Block b;
        b.norm = s_.norm_before ? NormPlace::before : NormPlace::after;
        b.attention_norm = [&](Value in) {
            return layer_norm_layer(g, in, "transformer.layer_norm1." + i, s_.epsilon);
        };
        b.feed_forward_norm = [&](Value in) {
            return layer_norm_layer(g, in, "transformer.layer_norm2." + i, s_.epsilon);
        };
        b.attention = [&](Value in) {
            AttentionLayer a;
            a.query = attention + ".q_lin";
            a.key = attention + ".k_lin";
            a.value = attention + ".v_lin";
            a.output = attention + ".out_lin";
            a.heads = s_.heads;
            a.layer = layer;
            if (s_.causal) // the reference then leaves padding to the triangle
                a.options.causal = 1;
            else
                a.options.key_padding = real;
            a.options.dropout = attention_dropout(g, s_.attention_dropout);
            return attention_layer(g, in, in, a);
        };
        b.feed_forward = [&](Value in) {
            const Value y = linear_layer(g, in, inner + ".lin1", 4 * s_.width, layer);
            return linear_layer(g, s_.gelu ? gelu(y) : relu(y), inner + ".lin2", s_.width, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }

    Settings s_;
    Labels labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "flaubert", architecture<Flaubert>()})
