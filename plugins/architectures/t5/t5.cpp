// T5 (Raffel et al. 2020): encoder and decoder with pre-norm RMSNorm, and one learned bias per head for each bucket of
// distances, shared by all layers. The gated feed-forward is that of version 1.1 (Shazeer 2020).
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, head_dim = 0, intermediate_size = 0, num_layers = 0, num_heads = 0,
            num_buckets = 0, max_distance = 0, pad_token_id = 0, decoder_start_token_id = 0;
    std::optional<int64_t> decoder_layers;
    double dropout = 0, layer_norm_eps = 0, factor = 0;
    std::string feed_forward;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("d_model", hidden_size);
        v("d_kv", head_dim);
        v("d_ff", intermediate_size);
        v("num_layers", num_layers);
        v("num_decoder_layers", decoder_layers);
        v("num_heads", num_heads);
        v("relative_attention_num_buckets", num_buckets);
        v("relative_attention_max_distance", max_distance);
        v("dropout_rate", dropout);
        v("layer_norm_epsilon", layer_norm_eps);
        v("initializer_factor", factor);
        v("feed_forward_proj", feed_forward);
        v("pad_token_id", pad_token_id);
        v("decoder_start_token_id", decoder_start_token_id);
    }
};

class T5 {
public:
    // Version 1.1 sets tie_word_embeddings = false: it has a separate output layer, and the states before it are not
    // scaled.
    explicit T5(const Config& c)
        : s_(read_settings<Settings>(c)), tied_(c.boolean("tie_word_embeddings")),
          scaled_(!c.is_null("scale_decoder_outputs") && c.boolean("scale_decoder_outputs", tied_)) {
        if (!s_.decoder_layers) s_.decoder_layers = s_.num_layers;
        gated_ = s_.feed_forward.starts_with("gated-");
        activation_ = s_.feed_forward.substr(gated_ ? 6 : 0);
        if (gated_ && activation_ == "gelu") activation_ = "gelu_new"; // the approximation that the name meant in T5
        // What the reference derives of it and stores, and then reads instead of it.
        if (c.has("dense_act_fn") && c.string("dense_act_fn") != activation_)
            throw unsupported("dense_act_fn is '" + c.string("dense_act_fn") + "', but feed_forward_proj = '" +
                              s_.feed_forward + "' has '" + activation_ + "': make them agree");
        if ((c.has("is_gated_act") || c.is_null("is_gated_act")) && c.boolean("is_gated_act", false) != gated_)
            throw unsupported("is_gated_act does not agree with feed_forward_proj = '" + s_.feed_forward +
                              "': make them agree");
        require(s_.hidden_size > 0 && s_.num_heads > 0 && s_.head_dim > 0,
                "d_model, num_heads and d_kv must be positive");
        require(s_.num_buckets >= 4 && s_.max_distance > s_.num_buckets / 2,
                "relative_attention_num_buckets must be at least 4, relative_attention_max_distance above half of it");
    }

    void build(Graph& g) {
        const Value source = g.input("input_ids");
        const Value target = decoder_ids(g, source, s_.decoder_start_token_id, s_.pad_token_id);
        const Value encoder_hidden_states =
            stack(g, source, "encoder", s_.num_layers, {}, optional_input(g, "attention_mask"));
        g.offer("encoder.hidden", encoder_hidden_states);
        const Value hidden = stack(g, target, "decoder", *s_.decoder_layers, encoder_hidden_states, source_padding(g));
        g.offer("hidden", hidden);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        Value hidden = g.ask("hidden");
        if (scaled_) hidden = hidden * (1.0 / std::sqrt(static_cast<double>(s_.hidden_size)));
        const Value decoder = tied_ ? token_embedding(g)
                                    : g.parameter("lm_head.weight", {s_.vocab_size, s_.hidden_size}, normal(s_.factor));
        g.offer("logits", linear(hidden, decoder));
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "t5", s_);
        out.set("is_encoder_decoder", true);
        out.set("tie_word_embeddings", tied_);
        out.set("scale_decoder_outputs", scaled_);
    }

private:
    Value token_embedding(Graph& g) {
        return g.parameter("shared.weight", {s_.vocab_size, s_.hidden_size}, normal(s_.factor));
    }
    Initializer scaled_normal(int64_t size) const { return normal(s_.factor / std::sqrt(static_cast<double>(size))); }
    Value norm(Graph& g, Value x, const std::string& name) { return rms_norm_layer(g, x, name, s_.layer_norm_eps); }

    Value stack(Graph& g, Value ids, const std::string& side, int64_t layers, Value encoder_hidden_states,
                Value padding) {
        const bool decoder = static_cast<bool>(encoder_hidden_states);
        const Value x = drop(g, embedding(token_embedding(g), ids), s_.dropout);
        const Value bias = transpose(g.parameter(side + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                                 {s_.num_buckets, s_.num_heads}, scaled_normal(s_.hidden_size)),
                                     {1, 0});
        HiddenStatesOptions names;
        names.scope = side;
        names.port = decoder ? "layer" : "encoder.layer";
        names.final_norm = [&](Value in) { return drop(g, norm(g, in, side + ".final_layer_norm"), s_.dropout); };
        return hidden_states(
            g, x, layers,
            [&](Value in, int64_t i) { return block(g, in, side, i, bias, encoder_hidden_states, padding); }, names);
    }

    Value block(Graph& g, Value x, const std::string& side, int64_t index, Value bias, Value encoder_hidden_states,
                Value padding) {
        const bool decoder = static_cast<bool>(encoder_hidden_states);
        const std::string layer_name = "block." + std::to_string(index) + ".",
                          name = side + "." + layer_name + "layer.";
        Block b;
        b.attention_norm = [&](Value in) { return norm(g, in, name + "0.layer_norm"); };
        b.cross_attention_norm = [&](Value in) { return norm(g, in, name + "1.layer_norm"); };
        const std::string feed_forward_name = name + (decoder ? "2." : "1.");
        b.feed_forward_norm = [&](Value in) { return norm(g, in, feed_forward_name + "layer_norm"); };
        b.attention = [&](Value in) {
            AttentionOptions o;
            o.distance_bias = bias;
            o.distance_first = -s_.max_distance; // beyond this, all distances share a bucket
            for (int64_t d = -s_.max_distance; d <= s_.max_distance; ++d)
                o.distance_table.push_back(bucket(d, !decoder));
            if (decoder) {
                o.causal = 1;
                o.cache = layer_name + "self";
                if (g.mode() != HK_MODE_DECODE) o.key_padding = optional_input(g, "decoder_attention_mask");
            } else {
                o.key_padding = padding;
            }
            return attend(g, in, in, name + "0.SelfAttention.", o, {});
        };
        if (decoder)
            b.cross_attention = [&](Value in) {
                return attend(g, in, encoder_hidden_states, name + "1.EncDecAttention.", {.key_padding = padding},
                              layer_name + "cross");
            };
        b.feed_forward = [&](Value in) {
            const auto layer = [&](Value v, const char* which, int64_t out) {
                return linear_layer(g, v, feed_forward_name + "DenseReluDense." + which, out,
                                    {.bias = false, .initializer = scaled_normal(v.dim(-1))});
            };
            const Value y = gated_ ? activation(layer(in, "wi_0", s_.intermediate_size), activation_) *
                                         layer(in, "wi_1", s_.intermediate_size)
                                   : activation(layer(in, "wi", s_.intermediate_size), activation_);
            return layer(drop(g, y, s_.dropout), "wo", s_.hidden_size);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }

    // Scores are not scaled; the initialization of the queries accounts for it.
    Value attend(Graph& g, Value x, Value source, const std::string& name, AttentionOptions o,
                 const std::string& cache_name) {
        const int64_t inner_dim = s_.num_heads * s_.head_dim;
        const auto project = [&](Value in, const char* which, Initializer init) {
            return split_heads(linear_layer(g, in, name + which, inner_dim, {.bias = false, .initializer = init}),
                               s_.num_heads);
        };
        const Value q = project(x, "q", scaled_normal(s_.hidden_size * s_.head_dim));
        Value k = project(source, "k", scaled_normal(s_.hidden_size)),
              v = project(source, "v", scaled_normal(s_.hidden_size));
        if (!cache_name.empty()) {
            k = once(k, cache_name + ".k");
            v = once(v, cache_name + ".v");
        }
        o.scale = 1.0;
        o.dropout = attention_dropout(g, s_.dropout);
        return linear_layer(g, merge_heads(attention(q, k, v, o)), name + "o", s_.hidden_size,
                            {.bias = false, .initializer = scaled_normal(inner_dim)});
    }

    // Returns the bucket of a key d positions before the query: half of the buckets hold one distance each, the others
    // grow logarithmically. float32, to round as the reference does.
    int64_t bucket(int64_t d, bool both_sides) const {
        int64_t buckets = s_.num_buckets, first = 0, far = d;
        if (both_sides) {
            buckets /= 2;
            if (d < 0) first = buckets;
            far = std::abs(d);
        } else if (d < 0) {
            far = 0;
        }
        const int64_t exact = buckets / 2;
        if (far < exact) return first + far;
        const float ratio = static_cast<float>(far) / static_cast<float>(exact);
        const float span =
            static_cast<float>(std::log(static_cast<double>(s_.max_distance) / static_cast<double>(exact)));
        const float steps = std::log(ratio) / span * static_cast<float>(buckets - exact);
        return first + std::min(exact + static_cast<int64_t>(steps), buckets - 1);
    }

    Settings s_;
    bool tied_, scaled_, gated_ = false;
    std::string activation_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "t5", architecture<T5>()})
