// GPT (Radford et al. 2018): a causal decoder with norms after each part, learned positions and a tied decoder.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, positions = 0, width = 0, layers = 0, heads = 0;
    std::string activation;
    double residual_dropout = 0, embedding_dropout = 0, attention_dropout = 0, epsilon = 0, range = 0;
    std::optional<int64_t> pad;
    bool tied = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("n_positions", positions);
        v("n_embd", width);
        v("n_layer", layers);
        v("n_head", heads);
        v("afn", activation);
        v("resid_pdrop", residual_dropout);
        v("embd_pdrop", embedding_dropout);
        v("attn_pdrop", attention_dropout);
        v("layer_norm_epsilon", epsilon);
        v("initializer_range", range);
        v("pad_token_id", pad);
        v("tie_word_embeddings", tied);
    }
};

class Gpt {
public:
    explicit Gpt(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.width, s_.heads, "n_embd", "n_head");
        if (s_.activation == "gelu")
            inner_activation_ = "gelu_new"; // this model's name for the approximation
        else
            inner_activation_ = s_.activation;
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        Value x;
        {
            const Scope scope(g, "embedding");
            const Value places = position_ids(g, ids.dim(0), ids.dim(1), s_.positions, "n_positions");
            x = embedding(words(g), ids) +
                embedding_layer(g, places, "transformer.positions_embed", s_.positions, s_.width, -1, normal(s_.range));
            if (g.has_field("token_type_ids")) x = x + embedding(words(g), g.input("token_type_ids"));
            x = drop(g, x, s_.embedding_dropout);
        }
        g.offer("layer.0.hidden", x);
        const Value padding = causal_padding(g);
        for (int64_t i = 0; i < s_.layers; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            x = block(g, x, padding, i);
            g.offer("layer." + std::to_string(i + 1) + ".hidden", x);
        }
        g.offer("hidden", x);
        g.offer("embedding.weight", words(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id == "lm") {
            const Value decoder =
                s_.tied ? words(g) : g.parameter("lm_head.weight", {s_.vocabulary, s_.width}, normal(s_.range));
            g.offer("logits", linear(g.ask("hidden"), decoder));
        } else if (id == "classifier") {
            const Value scores =
                linear_layer(g, g.ask("hidden"), "score", labels_, {.bias = false, .initializer = normal(s_.range)});
            g.offer("logits", gather(scores, last_token(g, g.input("input_ids"), s_.pad), {.batch_dimensions = 1}));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "openai-gpt", s_);
        write_labels(out, labels_);
    }

private:
    Value words(Graph& g) {
        return g.parameter("transformer.tokens_embed.weight", {s_.vocabulary, s_.width}, normal(s_.range));
    }

    Value block(Graph& g, Value x, Value padding, int64_t index) {
        const std::string name = "transformer.h." + std::to_string(index) + ".";
        const LayerOptions conv{.input_first = true, .initializer = normal(s_.range)};
        Block b;
        b.norm = NormPlace::after;
        b.attention_norm = [&](Value in) { return layer_norm_layer(g, in, name + "ln_1", s_.epsilon); };
        b.feed_forward_norm = [&](Value in) { return layer_norm_layer(g, in, name + "ln_2", s_.epsilon); };
        b.attention = [&](Value in) {
            const Value qkv = linear_layer(g, in, name + "attn.c_attn", 3 * s_.width, conv);
            const auto part = [&](int64_t k) { return split_heads(slice(qkv, 2, k * s_.width, s_.width), s_.heads); };
            const Value y = attention(part(0), part(1), part(2),
                                      {.key_padding = padding,
                                       .prefix = causal_prefix(g),
                                       .causal = 1,
                                       .dropout = attention_dropout(g, s_.attention_dropout),
                                       .cache = "h." + std::to_string(index)});
            return linear_layer(g, merge_heads(y), name + "attn.c_proj", s_.width, conv);
        };
        b.feed_forward = [&](Value in) {
            const Value y = activation(linear_layer(g, in, name + "mlp.c_fc", 4 * s_.width, conv), inner_activation_);
            return linear_layer(g, y, name + "mlp.c_proj", s_.width, conv);
        };
        b.residual_dropout = s_.residual_dropout;
        return transformer_block(g, x, b);
    }

    Settings s_;
    Labels labels_;
    std::string inner_activation_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "openai-gpt", architecture<Gpt>()})
