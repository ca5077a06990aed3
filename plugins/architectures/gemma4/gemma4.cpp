// Gemma 4 (Google 2026), the language model: windows in most layers and wider heads in the others, last layers that
// attend to the keys and values of earlier ones, an input of its own for every layer, and experts next to the
// feed-forward layer.
#include "experts.hpp"
#include "layer_types.hpp"
#include "rotary.hpp"

#include <map>

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0, num_heads = 0,
            num_key_value_heads = 0, head_dim = 0, max_positions = 0, window = 0, shared_layers = 0;
    std::optional<int64_t> pad_token_id, global_head_dim, global_key_value_heads, experts, chosen, expert_size;
    int64_t input_vocab_size = 0, input_size = 0; // of the inputs of every layer
    std::optional<double> logit_cap;
    double epsilon = 0, initializer_range = 0, attention_dropout = 0;
    bool attention_bias = false, tie_embeddings = true, keys_are_values = false, with_experts = false,
         double_wide = false;
    std::string activation;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        v("intermediate_size", intermediate_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("num_key_value_heads", num_key_value_heads);
        v("num_global_key_value_heads", global_key_value_heads);
        v("head_dim", head_dim);
        v("global_head_dim", global_head_dim);
        v("attention_k_eq_v", keys_are_values);
        v("num_kv_shared_layers", shared_layers);
        v("use_double_wide_mlp", double_wide);
        v("hidden_activation", activation);
        v("max_position_embeddings", max_positions);
        v("sliding_window", window);
        v("initializer_range", initializer_range);
        v("rms_norm_eps", epsilon);
        v("attention_bias", attention_bias);
        v("attention_dropout", attention_dropout);
        v("final_logit_softcapping", logit_cap);
        v("vocab_size_per_layer_input", input_vocab_size);
        v("hidden_size_per_layer_input", input_size);
        v("enable_moe_block", with_experts);
        v("num_experts", experts);
        v("top_k_experts", chosen);
        v("moe_intermediate_size", expert_size);
        v("pad_token_id", pad_token_id);
        v("tie_word_embeddings", tie_embeddings);
    }
};

class Gemma4 {
public:
    explicit Gemma4(const Config& c)
        : s_(read_settings<Settings>(c)),
          full_(RotarySettings::read(
              c, {.theta = 1e6, .partial_factor = 1.0, .layer_type = kFull, .scaling = false, .proportional = true})),
          local_(RotarySettings::read(c, {.layer_type = kSliding, .scaling = false})) {
        if (s_.global_head_dim == 0) s_.global_head_dim.reset();
        const std::string both_sides = c.string("use_bidirectional_attention", "");
        if (both_sides == "all")
            throw unsupported("use_bidirectional_attention is 'all': expected null, or vision, which is about images");
        require(both_sides.empty() || both_sides == "vision",
                "use_bidirectional_attention is '" + both_sides + "', expected null, vision or all");
        const std::string type = c.string("rope_parameters.rope_type", "default"); // the class may write it
        require(type == "default", "rope_parameters.rope_type is '" + type +
                                       "', expected rope_parameters.full_attention and .sliding_attention");
        require(s_.num_layers > 0, "num_hidden_layers must be positive");
        require(s_.shared_layers < s_.num_layers, "num_kv_shared_layers must be below num_hidden_layers");
        if (s_.keys_are_values)
            require(s_.global_key_value_heads.has_value(), "attention_k_eq_v needs num_global_key_value_heads");
        if (s_.with_experts) {
            require(s_.experts && s_.chosen && s_.expert_size,
                    "enable_moe_block needs num_experts, top_k_experts and moe_intermediate_size");
            require(*s_.experts > 0 && *s_.chosen > 0 && *s_.chosen <= *s_.experts,
                    "top_k_experts must be 1 to num_experts");
        }
        if (s_.pad_token_id && *s_.pad_token_id >= s_.vocab_size) s_.pad_token_id.reset(); // of a larger vocabulary
        read_layers(c);
        for (int64_t i = 0; i < s_.num_layers; ++i)
            require_heads(s_.num_heads, key_value_heads(i), "num_attention_heads", "the heads of keys and values");
        full_.check(s_.global_head_dim.value_or(s_.head_dim));
        local_.check(s_.head_dim);
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const int64_t limit = rotary_limit(g, full_, ids.dim(1));
        Pass pass;
        pass.positions = position_ids(g, ids.dim(0), ids.dim(1), limit, "max_position_embeddings");
        pass.padding = causal_padding(g);
        pass.segments = row_segments(g);
        const RotaryRows rows = rotary_rows(g, ids.dim(1), limit);
        const RotaryTables full(g, full_, s_.global_head_dim.value_or(s_.head_dim), rows);
        const RotaryTables local(g, local_, s_.head_dim, rows);
        Value x = embedding(token_embedding(g), ids, {.no_gradient_id = padding_id()}) * root(s_.hidden_size);
        const Value inputs = s_.input_size > 0 ? layer_inputs(g, x, ids) : Value{};
        x = hidden_states(
            g, x, s_.num_layers,
            [&](Value in, int64_t i) { return block(g, in, i, windowed(i) ? local : full, inputs, pass); },
            {.final_norm = [&](Value in) { return norm(g, in, "model.norm"); }});
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        const Value decoder = s_.tie_embeddings
                                  ? token_embedding(g)
                                  : g.parameter("lm_head.weight", {s_.vocab_size, s_.hidden_size}, initial());
        const Value logits = linear(g.ask("hidden"), decoder);
        g.offer("logits", s_.logit_cap ? tanh(logits / *s_.logit_cap) * *s_.logit_cap : logits);
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "gemma4_text", s_);
        full_.write(out);
        local_.write(out);
        std::vector<std::string> types;
        for (const bool one : windowed_) types.emplace_back(one ? kSliding : kFull);
        out.set("layer_types", types);
    }

private:
    static constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

    // What the layers of one pass share.
    struct Pass {
        struct Keys {
            Value k, v;
            std::string cache;
        };
        Value positions, padding, segments;
        std::map<bool, Keys> last; // by whether the layer has a window
    };

    void read_layers(const Config& c) {
        windowed_ = read_layer_types(c, s_.num_layers, kSliding, kFull, "full_attention or sliding_attention",
                                     [](int64_t i) { return (i + 1) % 6 != 0; });
        windowed_.back() = false; // the last one never has a window
        for (int64_t i = first_shared(); i < s_.num_layers; ++i) {
            bool before = false;
            for (int64_t j = 0; j < first_shared(); ++j) before |= windowed(j) == windowed(i);
            require(before, "layer " + std::to_string(i) +
                                " uses the keys and values of an earlier layer of its type (" +
                                (windowed(i) ? kSliding : kFull) + "), but no layer before " +
                                std::to_string(first_shared()) + " is one: num_kv_shared_layers is too large");
        }
    }

    static double root(int64_t number) { return std::sqrt(static_cast<double>(number)); }
    Initializer initial() const { return normal(s_.initializer_range); }
    int64_t padding_id() const { return s_.pad_token_id.value_or(-1); }
    bool windowed(int64_t layer) const { return windowed_[static_cast<std::size_t>(layer)]; }
    int64_t first_shared() const { return s_.num_layers - s_.shared_layers; }
    int64_t head_dim(int64_t layer) const {
        return windowed(layer) ? s_.head_dim : s_.global_head_dim.value_or(s_.head_dim);
    }
    bool values_are_keys(int64_t layer) const { return s_.keys_are_values && !windowed(layer); }
    int64_t key_value_heads(int64_t layer) const {
        return values_are_keys(layer) ? *s_.global_key_value_heads : s_.num_key_value_heads;
    }

    Value token_embedding(Graph& g) const {
        return g.parameter("model.embed_tokens.weight", {s_.vocab_size, s_.hidden_size}, initial());
    }
    Value norm(Graph& g, Value x, const std::string& name) const { return rms_norm_layer(g, x, name, s_.epsilon); }
    Value project(Graph& g, Value x, const std::string& name, int64_t out, bool bias = false) const {
        return linear_layer(g, x, name, out, {.bias = bias, .initializer = initial()});
    }

    // Returns the inputs of all layers, [B, T, layers, size], of the tokens and of their embeddings.
    Value layer_inputs(Graph& g, Value embedded, Value ids) const {
        const int64_t all = s_.num_layers * s_.input_size;
        const Dims dims{ids.dim(0), ids.dim(1), s_.num_layers, s_.input_size};
        const Value table = g.parameter("model.embed_tokens_per_layer.weight", {s_.input_vocab_size, all}, initial());
        const Value of_tokens = embedding(table, ids, {.no_gradient_id = padding_id()}) * root(s_.input_size);
        const Value projected = project(g, embedded, "model.per_layer_model_projection", all) / root(s_.hidden_size);
        const Value normed = norm(g, reshape(projected, dims), "model.per_layer_projection_norm");
        return (normed + reshape(of_tokens, dims)) * std::sqrt(0.5);
    }

    // Keys and values of a layer, which later ones may share.
    typename Pass::Keys keys_of(Graph& g, Value in, const std::string& name, int64_t layer, const RotaryTables& tables,
                                Pass& pass) const {
        if (layer >= first_shared()) return pass.last.at(windowed(layer));
        const int64_t heads = key_value_heads(layer), width = heads * head_dim(layer);
        const Value k = split_heads(project(g, in, name + "k_proj", width, s_.attention_bias), heads);
        const Value v =
            values_are_keys(layer) ? k : split_heads(project(g, in, name + "v_proj", width, s_.attention_bias), heads);
        const Value rotated = tables.apply(norm(g, k, name + "k_norm"), pass.positions);
        return pass.last[windowed(layer)] = {rotated, rms_norm(v, {.epsilon = s_.epsilon}),
                                             "layers." + std::to_string(layer)};
    }

    Value self_attention(Graph& g, Value in, const std::string& layer, int64_t index, const RotaryTables& tables,
                         Pass& pass) const {
        const std::string name = layer + "self_attn.";
        const int64_t width = s_.num_heads * head_dim(index);
        const Value q = split_heads(project(g, in, name + "q_proj", width, s_.attention_bias), s_.num_heads);
        const auto [k, v, cache] = keys_of(g, in, name, index, tables, pass);
        const Value y = attention(tables.apply(norm(g, q, name + "q_norm"), pass.positions), k, v,
                                  {.key_padding = pass.padding,
                                   .q_group = pass.segments,
                                   .k_group = pass.segments,
                                   .prefix = causal_prefix(g),
                                   .scale = 1.0,
                                   .causal = 1,
                                   .window = windowed(index) ? s_.window : 0,
                                   .empty_row = pass.segments ? 1 : 0,
                                   .dropout = attention_dropout(g, s_.attention_dropout),
                                   .cache = cache});
        return project(g, merge_heads(y), name + "o_proj", s_.hidden_size, s_.attention_bias);
    }

    // A gated feed-forward layer of this width.
    Value gated(Graph& g, Value in, const std::string& name, int64_t width) const {
        const Value gate = activation(project(g, in, name + "gate_proj", width), s_.activation);
        return project(g, gate * project(g, in, name + "up_proj", width), name + "down_proj", s_.hidden_size);
    }

    // x [B, T, W], before its norm.
    Value mixture(Graph& g, Value x, const std::string& layer) const {
        const int64_t tokens = x.dim(0) * x.dim(1), width = s_.hidden_size, size = *s_.expert_size;
        const Value flat = reshape(x, {tokens, width});
        const Value scale = to_float32(g.parameter(layer + "router.scale", {width}, ones()));
        const Value asked = rms_norm(to_float32(flat), {.epsilon = s_.epsilon}) * scale / root(width);
        const Value router = to_float32(g.parameter(layer + "router.proj.weight", {*s_.experts, width}, initial()));
        const TopKResult best = top_k(softmax(matmul(asked, router, {.transpose_b = 1})), *s_.chosen);
        const Value own = to_float32(g.parameter(layer + "router.per_expert_scale", {*s_.experts}, ones()));
        const Value weights = best.values / sum(best.values, {1}, {.keep = 1}) * gather(own, best.indices);
        const Value normed = norm(g, flat, layer + "pre_feedforward_layernorm_2");
        const Value y = apply_experts(normed, best.indices, weights, [&](Value each, Value rows) {
            const std::string name = layer + "experts.";
            const Value both =
                row_linear(each, g.parameter(name + "gate_up_proj", {*s_.experts, 2 * size, width}, initial()), rows);
            const Value inside = activation(slice(both, 1, 0, size), s_.activation) * slice(both, 1, size, size);
            return row_linear(inside, g.parameter(name + "down_proj", {*s_.experts, width, size}, initial()), rows);
        });
        return norm(g, reshape(y, x.shape()), layer + "post_feedforward_layernorm_2");
    }

    Value block(Graph& g, Value x, int64_t index, const RotaryTables& tables, Value inputs, Pass& pass) {
        const std::string name = "model.layers." + std::to_string(index) + ".";
        const Value attended = self_attention(g, norm(g, x, name + "input_layernorm"), name, index, tables, pass);
        x = x + norm(g, attended, name + "post_attention_layernorm");
        const int64_t width = s_.intermediate_size * (s_.double_wide && index >= first_shared() ? 2 : 1);
        Value y = gated(g, norm(g, x, name + "pre_feedforward_layernorm"), name + "mlp.", width);
        if (s_.with_experts) y = norm(g, y, name + "post_feedforward_layernorm_1") + mixture(g, x, name);
        x = x + norm(g, y, name + "post_feedforward_layernorm");
        if (inputs) {
            const Value own = reshape(slice(inputs, 2, index, 1), {x.dim(0), x.dim(1), s_.input_size});
            const Value gate = activation(project(g, x, name + "per_layer_input_gate", s_.input_size), s_.activation);
            const Value projected = project(g, gate * own, name + "per_layer_projection", s_.hidden_size);
            x = x + norm(g, projected, name + "post_per_layer_input_norm");
        }
        return x * g.buffer(name + "layer_scalar", HK_KIND_FLOAT, {1}, {1.0});
    }

    Settings s_;
    RotarySettings full_, local_;
    std::vector<bool> windowed_; // by layer
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "gemma4_text", architecture<Gemma4>()})
