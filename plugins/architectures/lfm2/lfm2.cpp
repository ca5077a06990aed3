// LFM2 (Liquid AI 2025): short gated convolutions in most layers, attention with normed queries and keys in the others.
#include "layer_types.hpp"
#include "rotary.hpp"
#include "states.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0, num_heads = 0,
            num_key_value_heads = 0, max_positions = 0, kernel = 0, multiple = 1;
    std::optional<int64_t> pad_token_id;
    std::optional<double> multiplier;
    double epsilon = 0, initializer_range = 0;
    bool bias = false, adjusted = false, tie_embeddings = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        v("intermediate_size", intermediate_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("num_key_value_heads", num_key_value_heads);
        v("max_position_embeddings", max_positions);
        v("initializer_range", initializer_range);
        v("norm_eps", epsilon);
        v("conv_L_cache", kernel);
        v("conv_bias", bias);
        v("block_auto_adjust_ff_dim", adjusted);
        v("block_ffn_dim_multiplier", multiplier);
        v("block_multiple_of", multiple);
        v("tie_word_embeddings", tie_embeddings);
        v("pad_token_id", pad_token_id);
    }
};

class Lfm2 {
public:
    explicit Lfm2(const Config& c) : s_(read_settings<Settings>(c)), rotary_(RotarySettings::read(c, {.theta = 1e6})) {
        if (c.has("block_ff_dim")) s_.intermediate_size = c.integer("block_ff_dim"); // the name in older files
        if (c.has("tie_embedding")) s_.tie_embeddings = c.boolean("tie_embedding");
        require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
        require_heads(s_.num_heads, s_.num_key_value_heads, "num_attention_heads", "num_key_value_heads");
        rotary_.check(head_dim());
        if (s_.pad_token_id && *s_.pad_token_id >= s_.vocab_size) s_.pad_token_id.reset(); // of a larger vocabulary
        require(width() > 0, "the feed-forward layers have no width: intermediate_size or block_ffn_dim_multiplier is "
                             "too small");
        read_layers(c);
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const int64_t limit = rotary_limit(g, rotary_, ids.dim(1));
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), limit, "max_position_embeddings");
        const RotaryTables tables(g, rotary_, head_dim(), rotary_rows(g, ids.dim(1), limit));
        const Value padding = causal_padding(g);
        Value x = embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)});
        x = hidden_states(
            g, x, s_.num_layers, [&](Value in, int64_t i) { return block(g, in, i, tables, positions, padding); },
            {.final_norm = [&](Value in) { return rms_norm_layer(g, in, "model.embedding_norm", s_.epsilon); }});
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        const Value decoder = s_.tie_embeddings ? token_embedding(g)
                                                : g.parameter("lm_head.weight", {s_.vocab_size, s_.hidden_size},
                                                              normal(s_.initializer_range));
        g.offer("logits", linear(g.ask("hidden"), decoder));
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "lfm2", s_);
        rotary_.write(out);
        std::vector<std::string> types;
        for (const bool one : attends_) types.emplace_back(one ? kAttention : kConvolution);
        out.set("layer_types", types);
    }

private:
    static constexpr const char *kAttention = "full_attention", *kConvolution = "conv";

    void read_layers(const Config& c) {
        attends_ = read_layer_types(c, s_.num_layers, kAttention, kConvolution, "full_attention or conv",
                                    [](int64_t) { return true; });
        if (c.has("layer_types") || !c.has("full_attn_idxs")) return;
        std::fill(attends_.begin(), attends_.end(), false);
        for (std::size_t i = 0; i < c.count("full_attn_idxs"); ++i) {
            const std::string key = "full_attn_idxs." + std::to_string(i);
            const int64_t layer = c.integer(key);
            require(layer >= 0 && layer < s_.num_layers, key + " is " + std::to_string(layer) + ", but there are " +
                                                             std::to_string(s_.num_layers) + " layers");
            attends_[static_cast<std::size_t>(layer)] = true;
        }
    }

    int64_t head_dim() const { return s_.hidden_size / s_.num_heads; }

    // Of a feed-forward layer.
    int64_t width() const {
        if (!s_.adjusted) return s_.intermediate_size;
        int64_t width = 2 * s_.intermediate_size / 3;
        if (!s_.multiplier) return width;
        width = static_cast<int64_t>(*s_.multiplier * static_cast<double>(width));
        return (width + s_.multiple - 1) / s_.multiple * s_.multiple;
    }

    Value token_embedding(Graph& g) {
        return g.parameter("model.embed_tokens.weight", {s_.vocab_size, s_.hidden_size}, normal(s_.initializer_range));
    }

    Value project(Graph& g, Value x, const std::string& name, int64_t out, bool bias = false) const {
        return linear_layer(g, x, name, out, {.bias = bias, .initializer = normal(s_.initializer_range)});
    }

    Value convolution(Graph& g, Value in, const std::string& layer, int64_t index) const {
        const std::string name = layer + "conv.";
        const int64_t width = s_.hidden_size;
        const Value all = project(g, without_padding(g, in), name + "in_proj", 3 * width, s_.bias);
        const Value weight = g.parameter(name + "conv.weight", {width, 1, s_.kernel}, normal(s_.initializer_range));
        const Value bias = s_.bias ? g.parameter(name + "conv.bias", {width}, zeros()) : Value{};
        const Value before = slice(all, 2, 0, width), after = slice(all, 2, width, width);
        const Value y = causal_convolution(g, before * slice(all, 2, 2 * width, width), weight, bias,
                                           "layers." + std::to_string(index) + ".convolution");
        return project(g, after * y, name + "out_proj", width, s_.bias);
    }

    Value self_attention(Graph& g, Value in, const std::string& layer, int64_t index, const RotaryTables& tables,
                         Value positions, Value padding) const {
        const std::string name = layer + "self_attn.";
        const auto heads = [&](const char* which, int64_t count) {
            return split_heads(project(g, in, name + which + "_proj", count * head_dim()), count);
        };
        const auto normed = [&](const char* which, int64_t count) {
            const Value y = rms_norm_layer(g, heads(which, count), name + which + "_layernorm", s_.epsilon);
            return tables.apply(y, positions);
        };
        const Value q = normed("q", s_.num_heads), k = normed("k", s_.num_key_value_heads);
        const Value y = attention(q, k, heads("v", s_.num_key_value_heads),
                                  {.key_padding = padding,
                                   .q_group = row_segments(g),
                                   .k_group = row_segments(g),
                                   .prefix = causal_prefix(g),
                                   .causal = 1,
                                   .empty_row = row_segments(g) ? 1 : 0,
                                   .cache = "layers." + std::to_string(index)});
        return project(g, merge_heads(y), name + "out_proj", s_.hidden_size);
    }

    Value block(Graph& g, Value x, int64_t index, const RotaryTables& tables, Value positions, Value padding) {
        const std::string name = "model.layers." + std::to_string(index) + ".";
        Block b;
        b.attention_norm = [&](Value in) { return rms_norm_layer(g, in, name + "operator_norm", s_.epsilon); };
        b.feed_forward_norm = [&](Value in) { return rms_norm_layer(g, in, name + "ffn_norm", s_.epsilon); };
        b.attention = [&](Value in) {
            return attends_[static_cast<std::size_t>(index)]
                       ? self_attention(g, in, name, index, tables, positions, padding)
                       : convolution(g, in, name, index);
        };
        b.feed_forward = [&](Value in) {
            const std::string layer = name + "feed_forward.";
            const Value inside = silu(project(g, in, layer + "w1", width())) * project(g, in, layer + "w3", width());
            return project(g, inside, layer + "w2", s_.hidden_size);
        };
        return transformer_block(g, x, b);
    }

    Settings s_;
    RotarySettings rotary_;
    std::vector<bool> attends_; // by layer; the others are convolutions
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "lfm2", architecture<Lfm2>()})
