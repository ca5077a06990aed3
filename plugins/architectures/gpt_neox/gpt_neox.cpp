// GPT-NeoX (Black et al. 2022): attention and feed-forward in parallel in a block, rotary positions on part of each
// head. use_parallel_residual = false runs them one after the other.
#include "rotary.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, num_layers = 0, num_heads = 0, intermediate_size = 0, max_positions = 0;
    std::string activation;
    double attention_dropout = 0, dropout = 0, classifier_dropout = 0, initializer_range = 0, layer_norm_eps = 0;
    bool tie_embeddings = false, parallel = true, attention_bias = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("intermediate_size", intermediate_size);
        v("hidden_act", activation);
        v("attention_dropout", attention_dropout);
        v("hidden_dropout", dropout);
        v("classifier_dropout", classifier_dropout);
        v("max_position_embeddings", max_positions);
        v("initializer_range", initializer_range);
        v("layer_norm_eps", layer_norm_eps);
        v("tie_word_embeddings", tie_embeddings);
        v("use_parallel_residual", parallel);
        v("attention_bias", attention_bias);
    }
};

class GptNeoX {
public:
    explicit GptNeoX(const Config& c)
        : s_(read_settings<Settings>(c)),
          rotary_(RotarySettings::read(
              c, {.theta_key = "rotary_emb_base", .partial_factor = 0.25, .partial_key = "rotary_pct"})),
          labels_(label_count(c)), pad_(c.integer("pad_token_id", -1)) {
        require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "max_position_embeddings");
        const RotaryTables tables(g, rotary_, s_.hidden_size / s_.num_heads,
                                  rotary_rows(g, ids.dim(1), s_.max_positions));
        const Value padding = causal_padding(g);
        Value x = drop(g, embedding(token_embedding(g), ids), s_.dropout);
        x = hidden_states(g, x, s_.num_layers,
                          [&](Value in, int64_t i) {
                              return block(
                                  g, in, i, [&](Value y) { return tables.apply(y, positions); }, padding);
                          },
                          {.final_norm = [&](Value in) {
                              return layer_norm_layer(g, in, "gpt_neox.final_layer_norm", s_.layer_norm_eps);
                          }});
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        if (id == "lm") {
            const Value decoder = s_.tie_embeddings ? token_embedding(g)
                                                    : g.parameter("embed_out.weight", {s_.vocab_size, s_.hidden_size},
                                                                  normal(s_.initializer_range));
            g.offer("logits", linear(hidden, decoder));
        } else if (id == "classifier") {
            const Value scores =
                linear_layer(g, hidden, "score", labels_, {.bias = false, .initializer = normal(s_.initializer_range)});
            const std::optional<int64_t> pad = pad_ >= 0 ? std::optional<int64_t>(pad_) : std::nullopt;
            g.offer("logits", gather(scores, last_token(g, g.input("input_ids"), pad), {.batch_dimensions = 1}));
        } else if (id == "tagger") {
            g.offer("logits", linear_layer(g, drop(g, hidden, s_.classifier_dropout), "classifier", labels_, layer));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "gpt_neox", s_);
        rotary_.write(out);
        write_labels(out, labels_);
    }

private:
    Value token_embedding(Graph& g) {
        return g.parameter("gpt_neox.embed_in.weight", {s_.vocab_size, s_.hidden_size}, normal(s_.initializer_range));
    }

    template<class ApplyRotary>
    Value block(Graph& g, Value x, int64_t index, const ApplyRotary& apply_rotary, Value padding) {
        const std::string name = "gpt_neox.layers." + std::to_string(index) + ".";
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        const LayerOptions projection{.bias = s_.attention_bias, .initializer = normal(s_.initializer_range)};
        const int64_t head = s_.hidden_size / s_.num_heads;
        Block b;
        b.arrangement = s_.parallel ? Arrangement::parallel : Arrangement::serial;
        b.attention_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "input_layernorm", s_.layer_norm_eps);
        };
        b.feed_forward_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "post_attention_layernorm", s_.layer_norm_eps);
        };
        b.attention = [&](Value in) {
            // Query, key and value are interleaved by head: [B, T, H, 3 D].
            const Value qkv =
                reshape(linear_layer(g, in, name + "attention.query_key_value", 3 * s_.hidden_size, projection),
                        {in.dim(0), in.dim(1), s_.num_heads, 3 * head});
            const auto qkv_slice = [&](int64_t k) { return transpose(slice(qkv, 3, k * head, head), {0, 2, 1, 3}); };
            const Value y = attention(apply_rotary(qkv_slice(0)), apply_rotary(qkv_slice(1)), qkv_slice(2),
                                      {.key_padding = padding,
                                       .prefix = causal_prefix(g),
                                       .causal = 1,
                                       .dropout = attention_dropout(g, s_.attention_dropout),
                                       .cache = "layers." + std::to_string(index)});
            return linear_layer(g, merge_heads(y), name + "attention.dense", s_.hidden_size, projection);
        };
        b.feed_forward = [&](Value in) {
            const Value y =
                activation(linear_layer(g, in, name + "mlp.dense_h_to_4h", s_.intermediate_size, layer), s_.activation);
            return linear_layer(g, y, name + "mlp.dense_4h_to_h", s_.hidden_size, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }

    Settings s_;
    RotarySettings rotary_;
    Labels labels_;
    int64_t pad_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "gpt_neox", architecture<GptNeoX>()})
