// Qwen3.5 (Qwen Team 2026): three of four layers are gated delta rules, the others attention whose result is gated. The
// variant with experts has one more that every token uses.
#include "experts.hpp"
#include "layer_types.hpp"
#include "rotary.hpp"
#include "states.hpp"

using namespace hekla::plugin;

namespace {

struct Variant {
    const char* id;
    ExpertForm experts{};
};
constexpr Variant kDense{"qwen3_5_text"};
constexpr Variant kSparse{
    "qwen3_5_moe_text",
    {.module = "mlp.", .count_key = "num_experts", .count = 256, .width_key = "moe_intermediate_size"}};

struct Settings {
    explicit Settings(bool with_experts) : experts(with_experts) {}

    bool experts;
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, shared_size = 0, num_layers = 0, num_heads = 0,
            num_key_value_heads = 0, head_dim = 0, max_positions = 0;
    int64_t kernel = 0, key_dim = 0, value_dim = 0, key_heads = 0, value_heads = 0; // of the delta rule
    std::optional<int64_t> pad_token_id;
    double epsilon = 0, initializer_range = 0, attention_dropout = 0;
    bool attention_bias = false, tie_embeddings = false;
    std::string activation;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        if (experts)
            v("shared_expert_intermediate_size", shared_size);
        else
            v("intermediate_size", intermediate_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("num_key_value_heads", num_key_value_heads);
        v("head_dim", head_dim);
        v("linear_conv_kernel_dim", kernel);
        v("linear_key_head_dim", key_dim);
        v("linear_value_head_dim", value_dim);
        v("linear_num_key_heads", key_heads);
        v("linear_num_value_heads", value_heads);
        v("hidden_act", activation);
        v("max_position_embeddings", max_positions);
        v("initializer_range", initializer_range);
        v("rms_norm_eps", epsilon);
        v("attention_bias", attention_bias);
        v("attention_dropout", attention_dropout);
        v("tie_word_embeddings", tie_embeddings);
        v("pad_token_id", pad_token_id);
    }
};

class Qwen35 {
public:
    Qwen35(const Config& c, const Variant& variant)
        : v_(variant), s_(*variant.experts.module != '\0'), rotary_(RotarySettings::read(c, {.partial_factor = 0.25})),
          labels_(label_count(c)) {
        s_.keys(SettingsReader(c));
        // Positions of rows, columns and times of images, which are the same for text.
        for (const char* object : {"rope_parameters.", "rope_scaling."})
            for (const char* key : {"mrope_section", "mrope_interleaved"}) c.has(std::string(object) + key);
        if (c.has("partial_rotary_factor")) // the reference reads this one, where a file has both
            require(c.real("partial_rotary_factor") == rotary_.partial_factor,
                    "partial_rotary_factor is " + std::to_string(c.real("partial_rotary_factor")) +
                        ", but that of rope_parameters is " + std::to_string(rotary_.partial_factor) +
                        ": remove the one that is wrong");
        require_heads(s_.num_heads, s_.num_key_value_heads, "num_attention_heads", "num_key_value_heads");
        require_heads(s_.value_heads, s_.key_heads, "linear_num_value_heads", "linear_num_key_heads");
        rotary_.check(s_.head_dim);
        if (s_.pad_token_id && *s_.pad_token_id >= s_.vocab_size) s_.pad_token_id.reset(); // of a larger vocabulary
        if (s_.experts) experts_.emplace(c, v_.experts, s_.num_layers);
        read_layers(c);
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const int64_t limit = rotary_limit(g, rotary_, ids.dim(1));
        const Value positions = position_ids(g, ids.dim(0), ids.dim(1), limit, "max_position_embeddings");
        const RotaryTables tables(g, rotary_, s_.head_dim, rotary_rows(g, ids.dim(1), limit));
        const Value padding = causal_padding(g);
        Experts::Routed routed;
        Value x = embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)});
        x = hidden_states(g, x, s_.num_layers,
                          [&](Value in, int64_t i) { return block(g, in, i, tables, positions, padding, routed); },
                          {.final_norm = [&](Value in) { return norm(g, in, "model.norm"); }});
        if (experts_) experts_->add_balance_loss(g, routed);
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        if (id == "lm") {
            const Value decoder = s_.tie_embeddings
                                      ? token_embedding(g)
                                      : g.parameter("lm_head.weight", {s_.vocab_size, s_.hidden_size}, initial());
            g.offer("logits", linear(hidden, decoder));
        } else if (id == "classifier") {
            const Value scores = project(g, hidden, "score", labels_);
            g.offer("logits",
                    gather(scores, last_token(g, g.input("input_ids"), s_.pad_token_id), {.batch_dimensions = 1}));
        } else if (id == "tagger") {
            g.offer("logits", project(g, drop(g, hidden, 0.1), "score", labels_, true));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        out.set("model_type", v_.id);
        s_.keys(SettingsWriter(out));
        rotary_.write(out);
        write_labels(out, labels_);
        if (experts_) experts_->write(out);
        std::vector<std::string> types;
        for (const bool one : attends_) types.emplace_back(one ? kFull : kLinear);
        out.set("layer_types", types);
    }

private:
    static constexpr const char *kFull = "full_attention", *kLinear = "linear_attention";

    void read_layers(const Config& c) {
        const int64_t interval = c.integer("full_attention_interval");
        attends_ = read_layer_types(c, s_.num_layers, kFull, kLinear, "full_attention or linear_attention",
                                    [&](int64_t i) { return (i + 1) % interval == 0; });
    }

    Initializer initial() const { return normal(s_.initializer_range); }

    Value token_embedding(Graph& g) const {
        return g.parameter("model.embed_tokens.weight", {s_.vocab_size, s_.hidden_size}, initial());
    }

    Value norm(Graph& g, Value x, const std::string& name) const {
        const Value gain = g.parameter(name + ".weight", {x.dim(-1)}, zeros()) + 1.0;
        return rms_norm(x, {.gain = gain, .epsilon = s_.epsilon});
    }

    Value project(Graph& g, Value x, const std::string& name, int64_t out, bool bias = false) const {
        return linear_layer(g, x, name, out, {.bias = bias, .initializer = initial()});
    }

    Value self_attention(Graph& g, Value in, const std::string& layer, int64_t index, const RotaryTables& tables,
                         Value positions, Value padding) const {
        const std::string name = layer + "self_attn.";
        const int64_t size = s_.head_dim, kv = s_.num_key_value_heads;
        const auto heads = [&](const char* which, int64_t count, int64_t width) {
            return split_heads(project(g, in, name + which + "_proj", count * width, s_.attention_bias), count);
        };
        const Value both = heads("q", s_.num_heads, 2 * size); // queries, and what the results are multiplied by
        const Value q = tables.apply(norm(g, slice(both, 3, 0, size), name + "q_norm"), positions);
        const Value k = tables.apply(norm(g, heads("k", kv, size), name + "k_norm"), positions);
        const Value y = attention(q, k, heads("v", kv, size),
                                  {.key_padding = padding,
                                   .q_group = row_segments(g),
                                   .k_group = row_segments(g),
                                   .prefix = causal_prefix(g),
                                   .causal = 1,
                                   .empty_row = row_segments(g) ? 1 : 0,
                                   .dropout = attention_dropout(g, s_.attention_dropout),
                                   .cache = "layers." + std::to_string(index)});
        const Value gated = y * sigmoid(slice(both, 3, size, size));
        return project(g, merge_heads(gated), name + "o_proj", s_.hidden_size, s_.attention_bias);
    }

    Value delta_layer(Graph& g, Value in, const std::string& layer, int64_t index) const {
        const std::string name = layer + "linear_attn.", state = "layers." + std::to_string(index);
        const int64_t keys = s_.key_heads * s_.key_dim, values = s_.value_heads * s_.value_dim;
        const Value x = without_padding(g, in);
        const Value weight = g.parameter(name + "conv1d.weight", {2 * keys + values, 1, s_.kernel}, initial());
        const Value mixed = silu(causal_convolution(g, project(g, x, name + "in_proj_qkv", 2 * keys + values), weight,
                                                    {}, state + ".convolution"));
        const auto key_heads = [&](int64_t first) { // each for several heads of values
            const Value heads = unit_length(to_float32(split_heads(slice(mixed, 2, first, keys), s_.key_heads)), 1e-6);
            const int64_t times = s_.value_heads / s_.key_heads, batch = heads.dim(0), length = heads.dim(2);
            const Value one = reshape(heads, {batch, s_.key_heads, 1, length, s_.key_dim});
            return reshape(broadcast(one, {batch, s_.key_heads, times, length, s_.key_dim}),
                           {batch, s_.value_heads, length, s_.key_dim});
        };
        const Value q = key_heads(0) * (1.0 / std::sqrt(static_cast<double>(s_.key_dim))), k = key_heads(keys);
        const Value v = split_heads(slice(mixed, 2, 2 * keys, values), s_.value_heads);
        // A is fresh from 1 to 16, with equal shares of logarithms.
        const Value a = g.parameter(name + "A_log", {s_.value_heads}, uniform(0.0, std::log(16.0)));
        const Value step = g.parameter(name + "dt_bias", {s_.value_heads}, ones());
        const Value speed = to_float32(project(g, x, name + "in_proj_a", s_.value_heads)) + to_float32(step);
        const Value decay = transpose(softplus(speed) * exp(to_float32(a)) * -1.0, {0, 2, 1});
        const Value rate = transpose(sigmoid(to_float32(project(g, x, name + "in_proj_b", s_.value_heads))), {0, 2, 1});
        const Value y = to_float(gated_delta_rule(g, q, k, v, decay, rate, state + ".delta"));
        const Value z = split_heads(project(g, x, name + "in_proj_z", values), s_.value_heads);
        const Value gain = g.parameter(name + "norm.weight", {s_.value_dim}, ones());
        return project(g, merge_heads(rms_norm(y, {.gain = gain, .epsilon = s_.epsilon}) * silu(z)), name + "out_proj",
                       s_.hidden_size);
    }

    Value feed_forward(Graph& g, Value in, const std::string& name, int64_t width) const {
        const Value gate = activation(project(g, in, name + "gate_proj", width), s_.activation);
        return project(g, gate * project(g, in, name + "up_proj", width), name + "down_proj", s_.hidden_size);
    }

    Value block(Graph& g, Value x, int64_t index, const RotaryTables& tables, Value positions, Value padding,
                Experts::Routed& routed) {
        const std::string name = "model.layers." + std::to_string(index) + ".", mlp = name + "mlp.";
        Block b;
        b.attention_norm = [&](Value in) { return norm(g, in, name + "input_layernorm"); };
        b.feed_forward_norm = [&](Value in) { return norm(g, in, name + "post_attention_layernorm"); };
        b.attention = [&](Value in) {
            return attends_[static_cast<std::size_t>(index)]
                       ? self_attention(g, in, name, index, tables, positions, padding)
                       : delta_layer(g, in, name, index);
        };
        b.feed_forward = [&](Value in) {
            if (!experts_) return feed_forward(g, in, mlp, s_.intermediate_size);
            const Value shared = feed_forward(g, in, mlp + "shared_expert.", s_.shared_size);
            const Value share = sigmoid(project(g, in, mlp + "shared_expert_gate", 1));
            return experts_->apply(g, in, name, initial(), s_.activation, routed) + shared * share;
        };
        return transformer_block(g, x, b);
    }

    const Variant& v_;
    Settings s_;
    RotarySettings rotary_;
    Labels labels_;
    std::optional<Experts> experts_;
    std::vector<bool> attends_; // by layer
};

class Dense : public Qwen35 {
public:
    explicit Dense(const Config& c) : Qwen35(c, kDense) {}
};
class Sparse : public Qwen35 {
public:
    explicit Sparse(const Config& c) : Qwen35(c, kSparse) {}
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, kDense.id, architecture<Dense>()},
             {HK_ARCHITECTURE_INTERFACE, kSparse.id, architecture<Sparse>()})
