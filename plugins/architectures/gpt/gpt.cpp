// GPT (Radford et al. 2018): a causal decoder with post-norm blocks, learned positions and a tied decoder.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, max_positions = 0, hidden_size = 0, num_layers = 0, num_heads = 0;
    std::string activation;
    double residual_dropout = 0, embedding_dropout = 0, attention_dropout = 0, layer_norm_eps = 0,
           initializer_range = 0;
    std::optional<int64_t> pad_token_id;
    bool tie_embeddings = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("n_positions", max_positions);
        v("n_embd", hidden_size);
        v("n_layer", num_layers);
        v("n_head", num_heads);
        v("afn", activation);
        v("resid_pdrop", residual_dropout);
        v("embd_pdrop", embedding_dropout);
        v("attn_pdrop", attention_dropout);
        v("layer_norm_epsilon", layer_norm_eps);
        v("initializer_range", initializer_range);
        v("pad_token_id", pad_token_id);
        v("tie_word_embeddings", tie_embeddings);
    }
};

class Gpt {
public:
    explicit Gpt(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.hidden_size, s_.num_heads, "n_embd", "n_head");
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
            const Value positions = position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "n_positions");
            x = embedding(token_embedding(g), ids) + embedding_layer(g, positions, "transformer.positions_embed",
                                                                     s_.max_positions, s_.hidden_size, -1,
                                                                     normal(s_.initializer_range));
            if (g.has_field("token_type_ids")) x = x + embedding(token_embedding(g), g.input("token_type_ids"));
            x = drop(g, x, s_.embedding_dropout);
        }
        const Value padding = causal_padding(g);
        x = hidden_states(g, x, s_.num_layers, [&](Value in, int64_t i) { return block(g, in, padding, i); });
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id == "lm") {
            const Value decoder = s_.tie_embeddings ? token_embedding(g)
                                                    : g.parameter("lm_head.weight", {s_.vocab_size, s_.hidden_size},
                                                                  normal(s_.initializer_range));
            g.offer("logits", linear(g.ask("hidden"), decoder));
        } else if (id == "classifier") {
            const Value scores = linear_layer(g, g.ask("hidden"), "score", labels_,
                                              {.bias = false, .initializer = normal(s_.initializer_range)});
            g.offer("logits",
                    gather(scores, last_token(g, g.input("input_ids"), s_.pad_token_id), {.batch_dimensions = 1}));
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
    Value token_embedding(Graph& g) {
        return g.parameter("transformer.tokens_embed.weight", {s_.vocab_size, s_.hidden_size},
                           normal(s_.initializer_range));
    }

    Value block(Graph& g, Value x, Value padding, int64_t index) {
        const std::string name = "transformer.h." + std::to_string(index) + ".";
        const LayerOptions conv{.input_first = true, .initializer = normal(s_.initializer_range)};
        Block b;
        b.norm = NormPosition::after;
        b.attention_norm = [&](Value in) { return layer_norm_layer(g, in, name + "ln_1", s_.layer_norm_eps); };
        b.feed_forward_norm = [&](Value in) { return layer_norm_layer(g, in, name + "ln_2", s_.layer_norm_eps); };
        b.attention = [&](Value in) {
            const Value qkv = linear_layer(g, in, name + "attn.c_attn", 3 * s_.hidden_size, conv);
            const auto qkv_slice = [&](int64_t k) {
                return split_heads(slice(qkv, 2, k * s_.hidden_size, s_.hidden_size), s_.num_heads);
            };
            const Value y = attention(qkv_slice(0), qkv_slice(1), qkv_slice(2),
                                      {.key_padding = padding,
                                       .prefix = causal_prefix(g),
                                       .causal = 1,
                                       .dropout = attention_dropout(g, s_.attention_dropout),
                                       .cache = "h." + std::to_string(index)});
            return linear_layer(g, merge_heads(y), name + "attn.c_proj", s_.hidden_size, conv);
        };
        b.feed_forward = [&](Value in) {
            const Value y =
                activation(linear_layer(g, in, name + "mlp.c_fc", 4 * s_.hidden_size, conv), inner_activation_);
            return linear_layer(g, y, name + "mlp.c_proj", s_.hidden_size, conv);
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
