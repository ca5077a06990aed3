// Llama (Touvron et al. 2023): rms norms before, rotary positions, gated feed-forward, fewer heads for keys and values.
// Qwen3 (Yang et al. 2025) is the same with a norm on every query and key, and windows in some layers.
#include "rotary.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0, inner = 0, layers = 0, heads = 0, positions = 0;
    std::optional<int64_t> key_heads, head_width, pad;
    std::string activation;
    double range = 0, epsilon = 0, attention_dropout = 0;
    bool tied = false, attention_bias = false;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
        v("intermediate_size", inner);
        v("num_hidden_layers", layers);
        v("num_attention_heads", heads);
        v("num_key_value_heads", key_heads);
        v("head_dim", head_width);
        v("hidden_act", activation);
        v("max_position_embeddings", positions);
        v("initializer_range", range);
        v("rms_norm_eps", epsilon);
        v("tie_word_embeddings", tied);
        v("attention_bias", attention_bias);
        v("attention_dropout", attention_dropout);
        v("pad_token_id", pad);
    }
};

class Llama {
public:
    explicit Llama(const Config& c) : Llama(c, "llama") { inner_bias_ = c.boolean("mlp_bias", false); }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value places = position_ids(g, ids.dim(0), ids.dim(1), s_.positions, "max_position_embeddings");
        const RotaryTables tables(g, rotary_, *s_.head_width, rotary_rows(g, ids.dim(1), s_.positions));
        const Value padding = causal_padding(g);
        Value x = embedding(words(g), ids, {.no_gradient_id = s_.pad.value_or(-1)});
        g.offer("layer.0.hidden", x);
        for (int64_t i = 0; i < s_.layers; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            x = block(
                g, x, i, [&](Value y) { return tables.turn(y, places); }, padding);
            if (i + 1 < s_.layers) g.offer("layer." + std::to_string(i + 1) + ".hidden", x);
        }
        x = rms_norm_layer(g, x, "model.norm", s_.epsilon);
        g.offer("layer." + std::to_string(s_.layers) + ".hidden", x);
        g.offer("hidden", x);
        g.offer("embedding.weight", words(g));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        if (id == "lm") {
            const Value decoder =
                s_.tied ? words(g) : g.parameter("lm_head.weight", {s_.vocabulary, s_.width}, normal(s_.range));
            g.offer("logits", linear(hidden, decoder));
        } else if (id == "classifier") {
            const Value scores =
                linear_layer(g, hidden, "score", labels_, {.bias = false, .initializer = normal(s_.range)});
            g.offer("logits", gather(scores, last_token(g, g.input("input_ids"), s_.pad), {.batch_dimensions = 1}));
        } else if (id == "tagger") {
            g.offer("logits",
                    linear_layer(g, drop(g, hidden, 0.1), "score", labels_, {.initializer = normal(s_.range)}));
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
        for (const int64_t window : windows_) types.push_back(window > 0 ? "sliding_attention" : "full_attention");
        out.set("layer_types", types);
    }

protected:
    Llama(const Config& c, const char* type)
        : s_(read_settings<Settings>(c)), rotary_(RotarySettings::read(c)), labels_(label_count(c)), type_(type),
          windows_(static_cast<std::size_t>(s_.layers > 0 ? s_.layers : 0), 0) {
        if (!s_.head_width) {
            require_heads(s_.width, s_.heads, "hidden_size", "num_attention_heads");
            s_.head_width = s_.width / s_.heads;
        }
        if (!s_.key_heads) s_.key_heads = s_.heads;
        require_heads(s_.heads, *s_.key_heads, "num_attention_heads", "num_key_value_heads");
    }

    Settings s_;
    RotarySettings rotary_;
    Labels labels_;
    const char* type_;
    bool norm_heads_ = false, inner_bias_ = false;
    std::vector<int64_t> windows_; // a layer; 0: none
    int64_t window_ = 0, first_window_ = 0;

private:
    Value words(Graph& g) {
        return g.parameter("model.embed_tokens.weight", {s_.vocabulary, s_.width}, normal(s_.range));
    }

    template<class Turn>
    Value block(Graph& g, Value x, int64_t index, const Turn& turn, Value padding) {
        const std::string name = "model.layers." + std::to_string(index) + ".";
        const LayerOptions projection{.bias = s_.attention_bias, .initializer = normal(s_.range)};
        const LayerOptions layer{.bias = inner_bias_, .initializer = normal(s_.range)};
        const int64_t wide = *s_.head_width;
        Block b;
        b.attention_norm = [&](Value in) { return rms_norm_layer(g, in, name + "input_layernorm", s_.epsilon); };
        b.feed_forward_norm = [&](Value in) {
            return rms_norm_layer(g, in, name + "post_attention_layernorm", s_.epsilon);
        };
        b.attention = [&](Value in) {
            const auto part = [&](const char* which, int64_t heads) {
                return split_heads(linear_layer(g, in, name + "self_attn." + which + "_proj", heads * wide, projection),
                                   heads);
            };
            Value q = part("q", s_.heads), k = part("k", *s_.key_heads);
            const Value v = part("v", *s_.key_heads);
            if (norm_heads_) {
                q = rms_norm_layer(g, q, name + "self_attn.q_norm", s_.epsilon);
                k = rms_norm_layer(g, k, name + "self_attn.k_norm", s_.epsilon);
            }
            const Value y = attention(turn(q), turn(k), v,
                                      {.key_padding = padding,
                                       .prefix = causal_prefix(g),
                                       .causal = 1,
                                       .window = windows_[static_cast<std::size_t>(index)],
                                       .dropout = attention_dropout(g, s_.attention_dropout),
                                       .cache = "layers." + std::to_string(index)});
            return linear_layer(g, merge_heads(y), name + "self_attn.o_proj", s_.width, projection);
        };
        b.feed_forward = [&](Value in) {
            const Value gate = activation(linear_layer(g, in, name + "mlp.gate_proj", s_.inner, layer), s_.activation);
            const Value up = linear_layer(g, in, name + "mlp.up_proj", s_.inner, layer);
            return linear_layer(g, gate * up, name + "mlp.down_proj", s_.width, layer);
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
        const bool windows = c.boolean("use_sliding_window") && window_ > 0;
        for (int64_t i = 0; i < s_.layers; ++i) {
            const std::string key = "layer_types." + std::to_string(i);
            const bool narrow = c.has(key) ? c.string(key) == "sliding_attention" : i >= first_window_;
            if (windows && narrow) windows_[static_cast<std::size_t>(i)] = window_;
        }
    }
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "llama", architecture<Llama>()},
             {HK_ARCHITECTURE_INTERFACE, "qwen3", architecture<Qwen3>()})
