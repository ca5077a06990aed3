// ModernBERT (Warner et al. 2024): a pre-norm encoder with rotary positions, gated feed-forward, and windows to both
// sides in two of three layers.
#include "layer_types.hpp"
#include "pooling.hpp"
#include "rotary.hpp"

using namespace hekla::plugin;

namespace {

// initializer_cutoff_factor is 2 deviations in all published configurations.
Initializer truncated(double deviation) { return {HK_INITIALIZE_TRUNCATED_NORMAL, 0.0, deviation}; }

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0, num_heads = 0, max_positions = 0;
    int64_t local_attention = 0;
    std::optional<int64_t> pad_token_id;
    double epsilon = 0, initializer_range = 0, attention_dropout = 0, embedding_dropout = 0, mlp_dropout = 0,
           classifier_dropout = 0;
    bool norm_bias = false, attention_bias = false, mlp_bias = false, decoder_bias = true, classifier_bias = false,
         tie_embeddings = true;
    std::string activation, classifier_activation, classifier_pooling;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        v("intermediate_size", intermediate_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("hidden_activation", activation);
        v("max_position_embeddings", max_positions);
        v("local_attention", local_attention);
        v("initializer_range", initializer_range);
        v("norm_eps", epsilon);
        v("norm_bias", norm_bias);
        v("attention_bias", attention_bias);
        v("attention_dropout", attention_dropout);
        v("embedding_dropout", embedding_dropout);
        v("mlp_bias", mlp_bias);
        v("mlp_dropout", mlp_dropout);
        v("decoder_bias", decoder_bias);
        v("classifier_pooling", classifier_pooling);
        v("classifier_dropout", classifier_dropout);
        v("classifier_bias", classifier_bias);
        v("classifier_activation", classifier_activation);
        v("pad_token_id", pad_token_id);
        v("tie_word_embeddings", tie_embeddings);
    }
};

class ModernBert {
public:
    explicit ModernBert(const Config& c)
        : s_(read_settings<Settings>(c)), full_(RotarySettings::read(c, of_full())),
          local_(RotarySettings::read(c, of_local())), labels_(label_count(c)) {
        require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
        require(s_.local_attention > 1, "local_attention must be 2 or more");
        require(s_.classifier_pooling == "cls" || s_.classifier_pooling == "mean",
                "classifier_pooling is '" + s_.classifier_pooling + "', expected cls or mean");
        const std::string type = c.string("rope_parameters.rope_type", "default");
        require(type == "default", "rope_parameters.rope_type is '" + type +
                                       "', expected rope_parameters.full_attention and .sliding_attention");
        for (const RotarySettings* rotary : {&full_, &local_}) rotary->check(head_dim());
        if (s_.pad_token_id && *s_.pad_token_id >= s_.vocab_size) s_.pad_token_id.reset(); // of a larger vocabulary
        read_layers(c);
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const int64_t limit = rotary_limit(g, full_, ids.dim(1));
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), limit, "max_position_embeddings");
        const RotaryRows rows = rotary_rows(g, ids.dim(1), limit);
        const RotaryTables full(g, full_, head_dim(), rows), local(g, local_, head_dim(), rows);
        const Value padding = optional_input(g, "attention_mask");
        Value x = embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)});
        x = drop(g, norm(g, x, "model.embeddings.norm"), s_.embedding_dropout);
        x = hidden_states(g, x, s_.num_layers,
                          [&](Value in, int64_t i) {
                              const RotaryTables& tables = windowed(i) ? local : full;
                              return block(g, in, i, tables, positions, padding);
                          },
                          {.final_norm = [&](Value in) { return norm(g, in, "model.final_norm"); }});
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const LayerOptions last{.initializer = truncated(1.0 / std::sqrt(static_cast<double>(s_.hidden_size)))};
        if (id == "mlm") {
            const Value decoder = s_.tie_embeddings ? token_embedding(g)
                                                    : g.parameter("decoder.weight", {s_.vocab_size, s_.hidden_size},
                                                                  truncated(deep_range()));
            const Value bias = s_.decoder_bias ? g.parameter("decoder.bias", {s_.vocab_size}) : Value{};
            g.offer("logits", linear(transformed(g, predicted_positions(g, g.ask("hidden"))), decoder, {.bias = bias}));
        } else if (id == "classifier") {
            const Value hidden = g.ask("hidden");
            const Value pooled =
                s_.classifier_pooling == "cls" ? first_token(hidden) : pool_tokens(g, hidden, PoolingKind::mean, "");
            const Value x = drop(g, transformed(g, pooled), s_.classifier_dropout);
            g.offer("logits", linear_layer(g, x, "classifier", labels_, last));
        } else if (id == "tagger") {
            const Value x = drop(g, transformed(g, g.ask("hidden")), s_.classifier_dropout);
            g.offer("logits", linear_layer(g, x, "classifier", labels_, last));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "modernbert", s_);
        full_.write(out);
        local_.write(out);
        std::vector<std::string> types;
        for (const bool windowed : windowed_) types.emplace_back(windowed ? kSliding : kFull);
        out.set("layer_types", types);
        write_labels(out, labels_);
    }

private:
    static constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

    static RotaryDefaults of_full() {
        return {.theta = 160000.0, .theta_key = "global_rope_theta", .layer_type = kFull};
    }
    static RotaryDefaults of_local() { return {.theta_key = "local_rope_theta", .layer_type = kSliding}; }

    void read_layers(const Config& c) {
        const int64_t period = c.integer("global_attn_every_n_layers");
        windowed_ = read_layer_types(c, s_.num_layers, kSliding, kFull, "full_attention or sliding_attention",
                                     [&](int64_t i) { return i % period != 0; });
    }

    int64_t head_dim() const { return s_.hidden_size / s_.num_heads; }
    bool windowed(int64_t layer) const { return windowed_[static_cast<std::size_t>(layer)]; }

    // Of fresh weights of layers that write to the residual stream, and of the head.
    double deep_range() const { return s_.initializer_range / std::sqrt(2.0 * static_cast<double>(s_.num_layers)); }

    Value token_embedding(Graph& g) {
        return g.parameter("model.embeddings.tok_embeddings.weight", {s_.vocab_size, s_.hidden_size},
                           truncated(s_.initializer_range));
    }

    Value norm(Graph& g, Value x, const std::string& name) const {
        if (s_.norm_bias) return layer_norm_layer(g, x, name, s_.epsilon);
        return layer_norm(x, {.gain = g.parameter(name + ".weight", {x.dim(-1)}, ones()), .epsilon = s_.epsilon});
    }

    // The layer before the decoder or classifier.
    Value transformed(Graph& g, Value x) const {
        const LayerOptions layer{.bias = s_.classifier_bias, .initializer = truncated(deep_range())};
        const Value y = linear_layer(g, x, "head.dense", s_.hidden_size, layer);
        return norm(g, activation(y, s_.classifier_activation), "head.norm");
    }

    Value block(Graph& g, Value x, int64_t index, const RotaryTables& tables, Value positions, Value padding) {
        const std::string name = "model.layers." + std::to_string(index) + ".";
        Block b;
        if (index > 0) b.attention_norm = [&](Value in) { return norm(g, in, name + "attn_norm"); };
        b.feed_forward_norm = [&](Value in) { return norm(g, in, name + "mlp_norm"); };
        b.attention = [&](Value in) {
            const LayerOptions layer{.bias = s_.attention_bias, .initializer = truncated(s_.initializer_range)};
            const LayerOptions output{.bias = s_.attention_bias, .initializer = truncated(deep_range())};
            const Value all = linear_layer(g, in, name + "attn.Wqkv", 3 * s_.hidden_size, layer);
            const auto part = [&](int64_t which) {
                return split_heads(slice(all, 2, which * s_.hidden_size, s_.hidden_size), s_.num_heads);
            };
            // As many tokens to each side as half of local_attention, and the token itself.
            const int64_t window = windowed(index) ? s_.local_attention / 2 + 1 : 0;
            const Value y = attention(tables.apply(part(0), positions), tables.apply(part(1), positions), part(2),
                                      {.key_padding = padding,
                                       .window = window,
                                       .dropout = attention_dropout(g, s_.attention_dropout),
                                       .window_after = window});
            const Value out = linear_layer(g, merge_heads(y), name + "attn.Wo", s_.hidden_size, output);
            return drop(g, out, s_.attention_dropout);
        };
        b.feed_forward = [&](Value in) {
            const LayerOptions layer{.bias = s_.mlp_bias, .initializer = truncated(s_.initializer_range)};
            const LayerOptions output{.bias = s_.mlp_bias, .initializer = truncated(deep_range())};
            const int64_t width = s_.intermediate_size;
            const Value both = linear_layer(g, in, name + "mlp.Wi", 2 * width, layer);
            const Value y = activation(slice(both, 2, 0, width), s_.activation) * slice(both, 2, width, width);
            return linear_layer(g, drop(g, y, s_.mlp_dropout), name + "mlp.Wo", s_.hidden_size, output);
        };
        return transformer_block(g, x, b);
    }

    Settings s_;
    RotarySettings full_, local_;
    Labels labels_;
    std::vector<bool> windowed_; // by layer
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "modernbert", architecture<ModernBert>()})
