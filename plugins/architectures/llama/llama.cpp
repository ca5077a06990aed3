// Llama (Touvron et al. 2023): pre-norm with RMSNorm, rotary positions, gated feed-forward, grouped-query attention.
// Qwen3 (Yang et al. 2025) adds a norm on every query and key, and sliding windows in some layers.
#include "rotary.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0, num_heads = 0, max_positions = 0;
    std::optional<int64_t> num_key_value_heads, head_dim, pad_token_id;
    std::string activation;
    double initializer_range = 0, layer_norm_eps = 0, attention_dropout = 0;
    bool tie_embeddings = false, attention_bias = false;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        v("intermediate_size", intermediate_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("num_key_value_heads", num_key_value_heads);
        v("head_dim", head_dim);
        v("hidden_act", activation);
        v("max_position_embeddings", max_positions);
        v("initializer_range", initializer_range);
        v("rms_norm_eps", layer_norm_eps);
        v("tie_word_embeddings", tie_embeddings);
        v("attention_bias", attention_bias);
        v("attention_dropout", attention_dropout);
        v("pad_token_id", pad_token_id);
    }
};

class Llama {
public:
    explicit Llama(const Config& c) : Llama(c, "llama") { inner_bias_ = c.boolean("mlp_bias", false); }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "max_position_embeddings");
        const RotaryTables tables(g, rotary_, *s_.head_dim, rotary_rows(g, ids.dim(1), s_.max_positions));
        const Value padding = causal_padding(g);
        Value x = embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)});
        x = hidden_states(
            g, x, s_.num_layers,
            [&](Value in, int64_t i) {
                return block(
                    g, in, i, [&](Value y) { return tables.apply(y, positions); }, padding);
            },
            {.final_norm = [&](Value in) { return rms_norm_layer(g, in, "model.norm", s_.layer_norm_eps); }});
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        if (id == "lm") {
            const Value decoder = s_.tie_embeddings ? token_embedding(g)
                                                    : g.parameter("lm_head.weight", {s_.vocab_size, s_.hidden_size},
                                                                  normal(s_.initializer_range));
            g.offer("logits", linear(hidden, decoder));
        } else if (id == "classifier") {
            const Value scores =
                linear_layer(g, hidden, "score", labels_, {.bias = false, .initializer = normal(s_.initializer_range)});
            g.offer("logits",
                    gather(scores, last_token(g, g.input("input_ids"), s_.pad_token_id), {.batch_dimensions = 1}));
        } else if (id == "tagger") {
            g.offer("logits", linear_layer(g, drop(g, hidden, 0.1), "score", labels_,
                                           {.initializer = normal(s_.initializer_range)}));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, type_, s_);
        rotary_.write(out);
        write_labels(out, labels_);
        if (!norm_heads_) return out.set("mlp_bias", inner_bias_);
        bool any = false;
        for (const int64_t window : windows_) any = any || window > 0;
        out.set("use_sliding_window", any);
        if (!any) return;
        out.set("sliding_window", window_);
        out.set("max_window_layers", first_window_);
        std::vector<std::string> types;
        for (const int64_t window : windows_) types.emplace_back(window > 0 ? "sliding_attention" : "full_attention");
        out.set("layer_types", types);
    }

protected:
    Llama(const Config& c, const char* type)
        : s_(read_settings<Settings>(c)), rotary_(RotarySettings::read(c)), labels_(label_count(c)), type_(type),
          windows_(static_cast<std::size_t>(s_.num_layers > 0 ? s_.num_layers : 0), 0) {
        if (!s_.head_dim) {
            require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
            s_.head_dim = s_.hidden_size / s_.num_heads;
        }
        if (!s_.num_key_value_heads) s_.num_key_value_heads = s_.num_heads;
        require_heads(s_.num_heads, *s_.num_key_value_heads, "num_attention_heads", "num_key_value_heads");
    }

    Settings s_;
    RotarySettings rotary_;
    Labels labels_;
    const char* type_;
    bool norm_heads_ = false, inner_bias_ = false;
    std::vector<int64_t> windows_; // per layer; 0: none
    int64_t window_ = 0, first_window_ = 0;

private:
    Value token_embedding(Graph& g) {
        return g.parameter("model.embed_tokens.weight", {s_.vocab_size, s_.hidden_size}, normal(s_.initializer_range));
    }

    template<class ApplyRotary>
    Value block(Graph& g, Value x, int64_t index, const ApplyRotary& apply_rotary, Value padding) {
        const std::string name = "model.layers." + std::to_string(index) + ".";
        const LayerOptions projection{.bias = s_.attention_bias, .initializer = normal(s_.initializer_range)};
        const LayerOptions layer{.bias = inner_bias_, .initializer = normal(s_.initializer_range)};
        const int64_t head_dim = *s_.head_dim;
        Block b;
        b.attention_norm = [&](Value in) { return rms_norm_layer(g, in, name + "input_layernorm", s_.layer_norm_eps); };
        b.feed_forward_norm = [&](Value in) {
            return rms_norm_layer(g, in, name + "post_attention_layernorm", s_.layer_norm_eps);
        };
        b.attention = [&](Value in) {
            const auto project = [&](const char* which, int64_t heads) {
                return split_heads(
                    linear_layer(g, in, name + "self_attn." + which + "_proj", heads * head_dim, projection), heads);
            };
            Value q = project("q", s_.num_heads), k = project("k", *s_.num_key_value_heads);
            const Value v = project("v", *s_.num_key_value_heads);
            if (norm_heads_) {
                q = rms_norm_layer(g, q, name + "self_attn.q_norm", s_.layer_norm_eps);
                k = rms_norm_layer(g, k, name + "self_attn.k_norm", s_.layer_norm_eps);
            }
            const Value y = attention(apply_rotary(q), apply_rotary(k), v,
                                      {.key_padding = padding,
                                       .prefix = causal_prefix(g),
                                       .causal = 1,
                                       .window = windows_[static_cast<std::size_t>(index)],
                                       .dropout = attention_dropout(g, s_.attention_dropout),
                                       .cache = "layers." + std::to_string(index)});
            return linear_layer(g, merge_heads(y), name + "self_attn.o_proj", s_.hidden_size, projection);
        };
        b.feed_forward = [&](Value in) {
            const Value gate =
                activation(linear_layer(g, in, name + "mlp.gate_proj", s_.intermediate_size, layer), s_.activation);
            const Value up = linear_layer(g, in, name + "mlp.up_proj", s_.intermediate_size, layer);
            return linear_layer(g, gate * up, name + "mlp.down_proj", s_.hidden_size, layer);
        };
        return transformer_block(g, x, b);
    }
};

class Qwen3 : public Llama {
public:
    explicit Qwen3(const Config& c) : Llama(c, "qwen3") {
        norm_heads_ = true;
        window_ = c.integer("sliding_window", 0);
        first_window_ = c.integer("max_window_layers");
        const bool windows = c.boolean("use_sliding_window") && window_ > 0, listed = c.has("layer_types");
        if (listed)
            require(c.count("layer_types") == static_cast<uint64_t>(s_.num_layers),
                    "layer_types has " + std::to_string(c.count("layer_types")) + " elements, num_hidden_layers is " +
                        std::to_string(s_.num_layers));
        for (int64_t i = 0; i < s_.num_layers; ++i) {
            const std::string key = "layer_types." + std::to_string(i);
            const std::string type = listed               ? c.string(key)
                                     : i >= first_window_ ? "sliding_attention"
                                                          : "full_attention";
            require(type == "full_attention" || type == "sliding_attention",
                    key + " is '" + type + "', expected full_attention or sliding_attention");
            if (windows && type == "sliding_attention") windows_[static_cast<std::size_t>(i)] = window_;
        }
    }
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "llama", architecture<Llama>()},
             {HK_ARCHITECTURE_INTERFACE, "qwen3", architecture<Qwen3>()})
