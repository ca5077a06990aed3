// Llama (Touvron et al. 2023) and the decoders that follow it: pre-norm with RMSNorm, rotary positions, gated
// feed-forward, grouped-query attention. variants.hpp lists what each of them changes.
#include "variants.hpp"

#include <algorithm>
#include <iterator>

using namespace hekla::plugin;
using namespace llama;

namespace {

struct Settings {
    explicit Settings(const Variant& of) : variant(&of) {}

    const Variant* variant;
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0, num_heads = 0, max_positions = 0;
    std::optional<int64_t> num_key_value_heads, head_dim, pad_token_id;
    std::string activation;
    double initializer_range = 0, epsilon = 0, attention_dropout = 0, residual_dropout = 0;
    bool tie_embeddings = false, attention_bias = false;
    bool mlp_bias = false, parallel = false, norm_each_head = false;
    double embedding_multiplier = 1, attention_multiplier = 0, residual_multiplier = 1, logits_scaling = 1;
    double logit_scale = 1, query_scalar = 0;
    std::optional<double> logit_cap, score_cap;
    bool both_sides = false;
    int64_t original_positions = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        if (*variant->experts.module == '\0' || variant->experts.dense_layers)
            v("intermediate_size", intermediate_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("num_key_value_heads", num_key_value_heads);
        if (variant->head_dim) v("head_dim", head_dim);
        v(variant->activation_key, activation);
        v("max_position_embeddings", max_positions);
        v("initializer_range", initializer_range);
        v(variant->epsilon_key, epsilon);
        v("tie_word_embeddings", tie_embeddings);
        if (*variant->bias_key != '\0') v(variant->bias_key, attention_bias);
        v("attention_dropout", attention_dropout);
        v("pad_token_id", pad_token_id);
    }

    // Those that few variants have.
    template<class V>
    void other_keys(V&& v) {
        if (variant->mlp_bias) v("mlp_bias", mlp_bias);
        if (variant->parallel_key) v("use_parallel_residual", parallel);
        if (variant->head_norm == HeadNorm::own) v("qk_layernorm", norm_each_head);
        if (*variant->residual_dropout_key != '\0') v(variant->residual_dropout_key, residual_dropout);
        if (variant->multipliers) {
            v("embedding_multiplier", embedding_multiplier);
            v("attention_multiplier", attention_multiplier);
            v("residual_multiplier", residual_multiplier);
            v("logits_scaling", logits_scaling);
        }
        if (variant->logit_scale) v("logit_scale", logit_scale);
        if (variant->query_scalar) v("query_pre_attn_scalar", query_scalar);
        if (variant->logit_cap) v("final_logit_softcapping", logit_cap);
        if (variant->score_cap) v("attn_logit_softcapping", score_cap);
        if (variant->both_sides) v("use_bidirectional_attention", both_sides);
        if (variant->original_positions) v("original_max_position_embeddings", original_positions);
    }
};

// Which layers have a window and are rotated.
class Layers {
public:
    Layers(const Config& c, const Variant& variant, int64_t count)
        : variant_(variant), windowed_(static_cast<std::size_t>(count), 0), rotated_(windowed_.size(), 1) {
        if (variant.rotated == Rotated::no_rope_layers) read_rotated(c);
        if (variant.windows != Windows::none) read_windows(c);
        if (variant.rotated == Rotated::windows) rotated_ = windowed_;
    }

    bool windowed(int64_t layer) const { return windowed_[static_cast<std::size_t>(layer)] != 0; }
    bool rotated(int64_t layer) const { return rotated_[static_cast<std::size_t>(layer)] != 0; }
    int64_t window(int64_t layer) const { return windowed(layer) ? window_ : 0; }

    void write(ConfigWriter& out) const {
        if (variant_.rotated == Rotated::no_rope_layers) out.set("no_rope_layers", rotated_);
        if (variant_.windows == Windows::none) return;
        const bool any = std::find(windowed_.begin(), windowed_.end(), 1) != windowed_.end();
        if (gated()) out.set("use_sliding_window", any);
        if (gated() && !any) return;
        if (any || window_ > 0)
            out.set("sliding_window", window_);
        else
            out.set_null("sliding_window");
        if (without_list()) return;
        if (variant_.windows == Windows::after_first) out.set("max_window_layers", first_);
        std::vector<std::string> types;
        for (const int64_t windowed : windowed_) types.emplace_back(windowed != 0 ? kSliding : kFull);
        out.set("layer_types", types);
    }

private:
    static constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

    bool gated() const {
        return variant_.windows == Windows::after_first || variant_.windows == Windows::unrotated ||
               variant_.windows == Windows::all_if_used;
    }
    bool without_list() const { return variant_.windows == Windows::all || variant_.windows == Windows::all_if_used; }

    // Refuses a list whose length is not the number of layers.
    void require_length(const Config& c, const std::string& key) const {
        require(c.count(key) == windowed_.size(), key + " has " + std::to_string(c.count(key)) +
                                                      " elements, num_hidden_layers is " +
                                                      std::to_string(windowed_.size()));
    }

    void read_rotated(const Config& c) {
        const bool listed = c.has("no_rope_layers");
        if (listed) require_length(c, "no_rope_layers");
        const int64_t interval = c.integer("no_rope_layer_interval");
        for (std::size_t i = 0; i < rotated_.size(); ++i)
            rotated_[i] = listed ? c.integer("no_rope_layers." + std::to_string(i)) != 0
                                 : (static_cast<int64_t>(i) + 1) % interval != 0;
    }

    void read_windows(const Config& c) {
        window_ = c.integer("sliding_window", 0);
        const bool used = !gated() || c.boolean("use_sliding_window");
        const bool windows = used && window_ > 0;
        if (variant_.windows == Windows::after_first) first_ = c.integer("max_window_layers");
        const int64_t period =
            *variant_.period_key != '\0' ? c.integer(variant_.period_key, variant_.period) : variant_.period;
        require(variant_.windows != Windows::periodic || period > 0,
                std::string(variant_.period_key) + " is " + std::to_string(period) + ", expected 1 or more");
        const bool listed = !without_list() && c.has("layer_types");
        if (listed) require_length(c, "layer_types");
        for (std::size_t i = 0; i < windowed_.size(); ++i) {
            const std::string key = "layer_types." + std::to_string(i);
            const auto layer = static_cast<int64_t>(i);
            bool wanted = windows; // all, listed
            if (variant_.windows == Windows::periodic) wanted = (layer + 1) % period != 0;
            if (variant_.windows == Windows::after_first) wanted = windows && layer >= first_;
            if (variant_.windows == Windows::unrotated) wanted = windows && !rotated(layer);
            if (listed) {
                const std::string type = c.string(key);
                require(type == kFull || type == kSliding,
                        key + " is '" + type + "', expected full_attention or sliding_attention");
                wanted = type == kSliding;
            }
            require(!wanted || windows, (listed ? key : "layer " + std::to_string(i)) + " is sliding_attention, but " +
                                            (used ? "sliding_window is null" : "use_sliding_window is false") +
                                            ": set it, or make the layer full_attention");
            windowed_[i] = wanted ? 1 : 0;
        }
    }

    const Variant& variant_;
    std::vector<int64_t> windowed_, rotated_; // 1 or 0
    int64_t window_ = 0, first_ = 0;
};

class Decoder {
public:
    Decoder(const Config& c, const Variant& variant)
        : v_(variant), s_(variant), rotary_(RotarySettings::read(c, variant.rotary)), labels_(label_count(c)) {
        s_.keys(SettingsReader(c));
        s_.other_keys(SettingsReader(c));
        if (v_.rope_by_type) read_local_rotary(c);
        require(s_.num_layers > 0, "num_hidden_layers must be positive");
        if (!s_.head_dim) {
            require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
            s_.head_dim = s_.hidden_size / s_.num_heads;
        }
        if (!s_.num_key_value_heads) s_.num_key_value_heads = s_.num_heads;
        require_heads(s_.num_heads, *s_.num_key_value_heads, "num_attention_heads", "num_key_value_heads");
        rotary_.check(*s_.head_dim);
        const int64_t rotated = rotary_.rotated(*s_.head_dim);
        require(!v_.even_rotation || rotated % 2 == 0,
                "rotary positions rotate " + std::to_string(rotated) + " of the " + std::to_string(*s_.head_dim) +
                    " features of a head: partial_rotary_factor must give an even number");
        if (s_.pad_token_id && *s_.pad_token_id >= s_.vocab_size) s_.pad_token_id.reset(); // of a larger vocabulary
        if (v_.query_scalar) {
            require(s_.query_scalar > 0.0, "query_pre_attn_scalar must be above 0");
            s_.attention_multiplier = 1.0 / std::sqrt(s_.query_scalar);
        }
        require(!v_.multipliers || s_.attention_multiplier > 0.0, "attention_multiplier must be above 0");
        require(s_.logits_scaling != 0.0, "logits_scaling must not be 0");
        layers_.emplace(c, variant, s_.num_layers);
        if (*v_.experts.module != '\0') experts_.emplace(c, v_.experts, s_.num_layers);
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const int64_t limit = rotary_limit(g, rotary_, ids.dim(1));
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), limit, "max_position_embeddings");
        const RotaryRows rows = rotary_rows(g, ids.dim(1), limit);
        const RotaryTables tables(g, rotary_, *s_.head_dim, rows);
        std::optional<RotaryTables> local;
        if (local_rotary_) local.emplace(g, *local_rotary_, *s_.head_dim, rows);
        const Value query_scale = rotary_.query_scaling ? query_scales(g, positions, rows.positions) : Value{};
        const Value padding = causal_padding(g), segments = row_segments(g);
        Value x = embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)});
        if (v_.scaled_embedding) x = x * std::sqrt(static_cast<double>(s_.hidden_size));
        if (s_.embedding_multiplier != 1.0) x = x * s_.embedding_multiplier;
        Experts::Routed routed;
        x = hidden_states(g, x, s_.num_layers,
                          [&](Value in, int64_t i) {
                              const RotaryTables& table = local && layers_->windowed(i) ? *local : tables;
                              const auto rotate = [&](Value y) {
                                  return layers_->rotated(i) ? table.apply(y, positions, v_.interleaved) : y;
                              };
                              return block(g, in, i, rotate, query_scale, {padding, segments}, routed);
                          },
                          {.final_norm = [&](Value in) { return norm(g, in, "model.norm"); }});
        if (experts_) experts_->add_balance_loss(g, routed);
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        if (id == "lm") {
            if (s_.both_sides)
                throw unsupported(
                    "use_bidirectional_attention is true: a head that predicts the next token would read it; "
                    "expected false, or another head");
            const Value decoder = s_.tie_embeddings ? token_embedding(g)
                                                    : g.parameter("lm_head.weight", {s_.vocab_size, s_.hidden_size},
                                                                  normal(s_.initializer_range));
            // Scaled before the product, so that the loss is still computed without storing the logits.
            const double scale = s_.logit_scale / s_.logits_scaling;
            const Value logits = linear(scale != 1.0 ? hidden * scale : hidden, decoder);
            g.offer("logits", s_.logit_cap ? tanh(logits / *s_.logit_cap) * *s_.logit_cap : logits);
        } else if (id == "classifier") {
            const Value scores =
                linear_layer(g, hidden, "score", labels_, {.bias = false, .initializer = normal(s_.initializer_range)});
            g.offer("logits",
                    gather(scores, last_token(g, g.input("input_ids"), s_.pad_token_id), {.batch_dimensions = 1}));
        } else if (id == "tagger") {
            const bool own_dropout = std::string_view(v_.residual_dropout_key) == "hidden_dropout";
            g.offer("logits", linear_layer(g, drop(g, hidden, own_dropout ? s_.residual_dropout : 0.1), "score",
                                           labels_, {.initializer = normal(s_.initializer_range)}));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        out.set("model_type", v_.id);
        s_.keys(SettingsWriter(out));
        rotary_.write(out);
        if (local_rotary_) local_rotary_->write(out);
        write_labels(out, labels_);
        s_.other_keys(SettingsWriter(out));
        layers_->write(out);
        if (experts_) experts_->write(out);
    }

private:
    // Settings of layers with a window, and what a class that has settings by layer type may write next to them.
    void read_local_rotary(const Config& c) {
        RotaryDefaults local = v_.rotary;
        local.theta = 10000.0;
        local.theta_key = "rope_local_base_freq";
        local.layer_type = "sliding_attention";
        local.scaling = false;
        local_rotary_ = RotarySettings::read(c, local);
        const std::string type = c.string("rope_parameters.rope_type", "default");
        require(type == "default", "rope_parameters.rope_type is '" + type +
                                       "', expected rope_parameters.full_attention and .sliding_attention");
    }

    Value token_embedding(Graph& g) {
        return g.parameter("model.embed_tokens.weight", {s_.vocab_size, s_.hidden_size}, normal(s_.initializer_range));
    }

    // Returns 1 + beta ln(1 + floor(position / original positions)) as [B, 1, T, 1].
    Value query_scales(Graph& g, Value positions, int64_t rows) const {
        std::vector<double> scales;
        for (int64_t position = 0; position < rows; ++position) {
            const auto step = static_cast<float>(position / rotary_.original_positions);
            scales.push_back(1.0f + static_cast<float>(*rotary_.query_scaling) * std::log(1.0f + step));
        }
        const Value table = g.constant(HK_KIND_FLOAT32, {rows}, scales);
        return reshape(gather(table, positions), {positions.dim(0), 1, positions.dim(1), 1});
    }

    Value norm(Graph& g, Value x, const std::string& name) const {
        const auto gain = [&](Initializer initial) { return g.parameter(name + ".weight", {x.dim(-1)}, initial); };
        switch (v_.norm) {
        case Norm::rms: break;
        case Norm::rms_plus_one: return rms_norm(x, {.gain = gain(zeros()) + 1.0, .epsilon = s_.epsilon});
        case Norm::layer: return layer_norm_layer(g, x, name, s_.epsilon);
        case Norm::layer_without_bias: return layer_norm(x, {.gain = gain(ones()), .epsilon = s_.epsilon});
        }
        return rms_norm_layer(g, x, name, s_.epsilon);
    }

    // Normalizes each head of x [B, H, T, D] with a gain of its own.
    Value norm_each_head(Graph& g, Value x, const std::string& name) const {
        std::vector<Value> gains;
        for (int64_t i = 0; i < x.dim(1); ++i)
            gains.push_back(g.parameter(name + ".norms." + std::to_string(i) + ".weight", {x.dim(3)}, ones()));
        return layer_norm(x, {.epsilon = s_.epsilon}) * reshape(concat(gains, 0), {x.dim(1), 1, x.dim(3)});
    }

    struct Projected {
        Value q, k, v; // [B, H, T, D]
    };

    Projected projections(Graph& g, Value in, const std::string& name) const {
        const LayerOptions layer{.bias = v_.bias || s_.attention_bias, .initializer = normal(s_.initializer_range)};
        const int64_t q_width = s_.num_heads * *s_.head_dim, k_width = *s_.num_key_value_heads * *s_.head_dim;
        if (v_.joined) {
            const Value all = linear_layer(g, in, name + "qkv_proj", q_width + 2 * k_width, layer);
            const Value q = split_heads(slice(all, 2, 0, q_width), s_.num_heads);
            const Value k = split_heads(slice(all, 2, q_width, k_width), *s_.num_key_value_heads);
            return {q, k, split_heads(slice(all, 2, q_width + k_width, k_width), *s_.num_key_value_heads)};
        }
        const auto project = [&](const char* which, int64_t heads) {
            Value y = linear_layer(g, in, name + which + "_proj", heads * *s_.head_dim, layer);
            if (v_.head_norm == HeadNorm::whole && *which != 'v') y = norm(g, y, name + which + "_norm");
            return split_heads(y, heads);
        };
        Value q = project("q", s_.num_heads), k = project("k", *s_.num_key_value_heads);
        const Value v = project("v", *s_.num_key_value_heads);
        if (v_.head_norm == HeadNorm::shared) {
            q = norm(g, q, name + "q_norm");
            k = norm(g, k, name + "k_norm");
        } else if (s_.norm_each_head) {
            q = norm_each_head(g, q, name + "q_layernorm");
            k = norm_each_head(g, k, name + "k_layernorm");
        }
        return {q, k, v};
    }

    Value feed_forward(Graph& g, Value in, const std::string& name) const {
        const LayerOptions layer{.bias = s_.mlp_bias, .initializer = normal(s_.initializer_range)};
        const int64_t width = s_.intermediate_size;
        const auto down = [&](Value y) { return linear_layer(g, y, name + "down_proj", s_.hidden_size, layer); };
        if (!v_.gated) return down(activation(linear_layer(g, in, name + "up_proj", width, layer), s_.activation));
        if (v_.joined_gate) {
            const Value both = linear_layer(g, in, name + "gate_up_proj", 2 * width, layer);
            const Value gate = activation(slice(both, 2, 0, width), s_.activation);
            return down(gate * slice(both, 2, width, width));
        }
        const Value gate = activation(linear_layer(g, in, name + "gate_proj", width, layer), s_.activation);
        const Value up = linear_layer(g, in, name + "up_proj", width, layer);
        return down(gate * up);
    }

    struct Seen { // of a row's tokens; empty: all
        Value padding, segments;
    };

    template<class Rotate>
    Value block(Graph& g, Value x, int64_t index, const Rotate& rotate, Value query_scale, const Seen& seen,
                Experts::Routed& routed) {
        const std::string name = "model.layers." + std::to_string(index) + ".";
        const auto norm_named = [&](const char* part) {
            const std::string whole = name + part;
            return *part != '\0' ? Block::Part([this, &g, whole](Value in) { return norm(g, in, whole); }) : nullptr;
        };
        const bool parallel = v_.arrangement == Arrangement::parallel || s_.parallel;
        Block b;
        b.arrangement = parallel ? Arrangement::parallel : Arrangement::serial;
        b.norm = NormPosition::both;
        b.attention_norm = norm_named(v_.norms.before_attention);
        b.attention_after_norm = norm_named(v_.norms.after_attention);
        if (!parallel) b.feed_forward_norm = norm_named(v_.norms.before_feed_forward);
        b.feed_forward_after_norm = norm_named(v_.norms.after_feed_forward);
        b.attention = [&](Value in) {
            const Projected p = projections(g, in, name + "self_attn.");
            const Value k = rotate(p.k);
            Value q = rotate(p.q);
            if (query_scale) q = q * query_scale;
            AttentionOptions options{.key_padding = seen.padding,
                                     .q_group = seen.segments,
                                     .k_group = seen.segments,
                                     .scale = s_.attention_multiplier,
                                     .window = layers_->window(index),
                                     .empty_row = seen.segments ? 1 : 0,
                                     .dropout = attention_dropout(g, s_.attention_dropout),
                                     .softcap = s_.score_cap.value_or(0.0)};
            if (s_.both_sides) {
                options.window = options.window_after = options.window > 0 ? options.window / 2 + 1 : 0;
            } else {
                options.prefix = causal_prefix(g);
                options.causal = 1;
                options.cache = "layers." + std::to_string(index);
            }
            if (v_.sinks)
                options.sinks = g.parameter(name + "self_attn.sinks", {s_.num_heads}, normal(s_.initializer_range));
            const Value y = attention(q, k, p.v, options);
            const LayerOptions output{.bias = v_.output_bias && s_.attention_bias,
                                      .initializer = normal(s_.initializer_range)};
            const Value out = linear_layer(g, merge_heads(y), name + "self_attn.o_proj", s_.hidden_size, output);
            return branch(g, out, v_.residual_dropout_after_attention);
        };
        b.feed_forward = [&](Value in) {
            const Value y = experts_ && experts_->in(index)
                                ? experts_->apply(g, in, name, normal(s_.initializer_range), s_.activation, routed)
                                : feed_forward(g, in, name + "mlp.");
            return branch(g, y, true);
        };
        return transformer_block(g, x, b);
    }

    // What is added to the residual stream.
    Value branch(Graph& g, Value y, bool dropout) const {
        if (s_.residual_multiplier != 1.0) y = y * s_.residual_multiplier;
        return dropout ? drop(g, y, s_.residual_dropout) : y;
    }

    const Variant& v_;
    Settings s_;
    RotarySettings rotary_;
    std::optional<RotarySettings> local_rotary_;
    Labels labels_;
    std::optional<Layers> layers_;
    std::optional<Experts> experts_;
};

template<std::size_t Index>
class Of : public Decoder {
public:
    explicit Of(const Config& c) : Decoder(c, kVariants[Index]) {}
};

template<std::size_t Index>
Offer offer() {
    return {HK_ARCHITECTURE_INTERFACE, kVariants[Index].id, architecture<Of<Index>>()};
}
static_assert(std::size(kVariants) == 21, "an offer for each variant");

} // namespace

HEKLA_PLUGIN(offer<0>(), offer<1>(), offer<2>(), offer<3>(), offer<4>(), offer<5>(), offer<6>(), offer<7>(), offer<8>(),
             offer<9>(), offer<10>(), offer<11>(), offer<12>(), offer<13>(), offer<14>(), offer<15>(), offer<16>(),
             offer<17>(), offer<18>(), offer<19>(), offer<20>())
