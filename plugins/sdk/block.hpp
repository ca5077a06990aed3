// Building blocks of transformers: layers under their file names, heads, activations, and a block with options for its
// arrangement. All of them are composed of the operations of operations.hpp. `at` is never given: it is the location of
// the call, for errors.
#pragma once

#include "settings.hpp"

#include <cmath>
#include <functional>

namespace hekla::plugin {

struct LayerOptions {
    bool bias = true;
    bool input_first = false; // GPT-2's Conv1D stores [in, out]
    Initializer initializer = normal(0.02);
};

// Applies NAME.weight and NAME.bias: x [..., in] -> [..., out].
inline Value linear_layer(Graph& g, Value x, const std::string& name, int64_t out, const LayerOptions& o = {},
                          Location at = Location::here()) {
    const Caller caller(g, at);
    const int64_t in = x.dim(-1);
    const Value weight = g.parameter(name + ".weight", o.input_first ? Dims{in, out} : Dims{out, in}, o.initializer);
    const Value bias = o.bias ? g.parameter(name + ".bias", {out}, zeros()) : Value{};
    return linear(x, weight, {.bias = bias, .input_first = o.input_first ? 1 : 0});
}

// Applies NAME.weight and NAME.bias over the last axis.
inline Value layer_norm_layer(Graph& g, Value x, const std::string& name, double epsilon,
                              Location at = Location::here()) {
    const Caller caller(g, at);
    const int64_t d = x.dim(-1);
    return layer_norm(x, {.gain = g.parameter(name + ".weight", {d}, ones()),
                          .bias = g.parameter(name + ".bias", {d}, zeros()),
                          .epsilon = epsilon});
}

// Applies NAME.weight over the last axis.
inline Value rms_norm_layer(Graph& g, Value x, const std::string& name, double epsilon,
                            Location at = Location::here()) {
    const Caller caller(g, at);
    return rms_norm(x, {.gain = g.parameter(name + ".weight", {x.dim(-1)}, ones()), .epsilon = epsilon});
}

#if HK_TARGET_ABI_MINOR >= 1
struct BatchNormOptions {
    double momentum = 0.1; // the share of a step's statistics in the running ones
    double epsilon = 1e-5;
};

// Batch normalization of x [..., C] over all other dimensions (Ioffe and Szegedy 2015), with the parameters and buffers
// of nn.BatchNorm1d and 2d: the batch's own statistics in training, NAME.running_mean and NAME.running_var in other
// modes.
inline Value batch_norm_layer(Graph& g, Value x, const std::string& name, const BatchNormOptions& o = {},
                              Location at = Location::here()) {
    const Caller caller(g, at);
    const int64_t width = x.dim(-1);
    const auto filled = [&](double value) { return std::vector<double>(static_cast<std::size_t>(width), value); };
    const Value running_mean = g.buffer(name + ".running_mean", HK_KIND_FLOAT, {width}, filled(0.0));
    const Value running_var = g.buffer(name + ".running_var", HK_KIND_FLOAT, {width}, filled(1.0));
    Value mean_of = running_mean, variance = running_var;
    if (g.training()) {
        std::vector<int64_t> axes;
        double count = 1.0;
        for (int axis = 0; axis + 1 < x.rank(); ++axis) {
            axes.push_back(axis);
            count *= static_cast<double>(x.dim(axis));
        }
        mean_of = mean(x, axes);
        variance = mean((x - mean_of) * (x - mean_of), axes);
        const double unbiased = count > 1.0 ? count / (count - 1.0) : 1.0;
        buffer_update(running_mean, (1.0 - o.momentum) * running_mean + o.momentum * mean_of);
        buffer_update(running_var, (1.0 - o.momentum) * running_var + (o.momentum * unbiased) * variance);
    }
    const Value normalized = (x - mean_of) * rsqrt(variance + o.epsilon);
    return normalized * g.parameter(name + ".weight", {width}, ones()) + g.parameter(name + ".bias", {width}, zeros());
}
#endif

// Looks up NAME.weight [rows, width]: ids [...] -> [..., width].
inline Value embedding_layer(Graph& g, Value ids, const std::string& name, int64_t rows, int64_t width,
                             int64_t no_gradient_id = -1, Initializer initializer = normal(0.02),
                             Location at = Location::here()) {
    const Caller caller(g, at);
    return embedding(g.parameter(name + ".weight", {rows, width}, initializer), ids,
                     {.no_gradient_id = no_gradient_id});
}

// Applies dropout if the mode is train and the probability above 0.
inline Value drop(Graph& g, Value x, double probability, Location at = Location::here()) {
    const Caller caller(g, at);
    return g.training() && probability > 0.0 ? dropout(x, probability) : x;
}
// Returns the dropout probability for attention: 0 outside training.
inline double attention_dropout(Graph& g, double probability) { return g.training() ? probability : 0.0; }

// Converts [B, T, H D] -> [B, H, T, D] and back.
inline Value split_heads(Value x, int64_t heads, Location at = Location::here()) {
    const Caller caller(x.graph, at);
    return transpose(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}
inline Value merge_heads(Value x, Location at = Location::here()) {
    const Caller caller(x.graph, at);
    return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

// Returns the field, or nothing if the batch has none. Choices [B, C, T] become rows.
inline Value optional_input(Graph& g, std::string_view field, Location at = Location::here()) {
    const Caller caller(g, at);
    if (!g.has_field(field)) return {};
    const Value x = g.input(field);
    return field == "attention_mask" && x.rank() == 3 ? reshape(x, {-1, x.dim(2)}) : x;
}
// Returns prefix_length [B] for causal self-attention with a bidirectional prefix, and offers a port to report that it
// is read.
inline Value causal_prefix(Graph& g, Location at = Location::here()) {
    const Caller caller(g, at);
    if (g.mode() == HK_MODE_DECODE || !g.has_field("prefix_length")) return {};
    if (g.has_field("segment_ids"))
        g.fail("prefix_length opens attention for the beginning of a row, and a row of several examples "
               "(data.packing) has several beginnings: set objective.bidirectional_prompt = false, or data.packing = "
               "\"none\"");
    if (!g.has_port("reads_prefix")) g.offer("reads_prefix", g.input("prefix_length"));
    return g.input("prefix_length");
}
// Returns attention_mask for causal self-attention. Decode mode knows each row's length from its cache, and needs none.
inline Value causal_padding(Graph& g, Location at = Location::here()) {
    const Caller caller(g, at);
    return g.mode() == HK_MODE_DECODE ? Value{} : optional_input(g, "attention_mask");
}
// Returns segment_ids [B, T] of rows that hold several examples, 0 for padding, or nothing: a token may see those of
// its own segment alone. The positions of such a row restart in each segment and stay below the length of a row.
// Attention with them as groups has no row without an allowed key: empty_row = 1 lets kernels skip blocks of other
// segments.
inline Value row_segments(Graph& g, Location at = Location::here()) {
    const Caller caller(g, at);
    return g.mode() == HK_MODE_DECODE ? Value{} : optional_input(g, "segment_ids");
}
// Returns position_ids [B, T] if the batch has them, otherwise 0, 1, ... (in decode mode counted from the cache).
inline Value position_ids(Graph& g, int64_t batch, int64_t length, int64_t most, const char* key,
                          Location at = Location::here()) {
    const Caller caller(g, at);
    if (length > most)
        g.fail("the batch has rows of " + std::to_string(length) + " tokens, the model " + key + " = " +
               std::to_string(most));
    return g.has_field("position_ids") ? g.input("position_ids") : g.positions(batch, length);
}
// Returns the decoder's input: decoder_input_ids, or the labels (the source, if there are no labels) shifted right
// after the start token; without either (encode mode), the start token.
inline Value decoder_ids(Graph& g, Value source, int64_t start, int64_t pad, Location at = Location::here()) {
    const Caller caller(g, at);
    if (g.has_field("decoder_input_ids")) return g.input("decoder_input_ids");
    const Value first = g.fill({source.dim(0), 1}, static_cast<double>(start), HK_KIND_INT32);
    if (g.mode() == HK_MODE_ENCODE || g.mode() == HK_MODE_DECODE) return first;
    Value ids = source;
    if (g.has_field("labels") && g.input("labels").rank() == 2) ids = g.input("labels");
    const Value shifted = concat({first, slice(ids, 1, 0, ids.dim(1) - 1)}, 1);
    return where(equal(shifted, -100.0), g.integer(pad), shifted);
}
// Returns the source's attention_mask for cross-attention, kept from the encode pass.
inline Value source_padding(Graph& g, Location at = Location::here()) {
    const Caller caller(g, at);
    return g.has_field("attention_mask") ? once(g.input("attention_mask"), "encoder.padding") : Value{};
}

// Returns x with this probability, otherwise the layer's result y: LayerDrop (Fan et al. 2020), one draw for the batch.
inline Value layer_drop(Graph& g, Value x, Value y, double probability, Location at = Location::here()) {
    const Caller caller(g, at);
    if (!g.training() || probability <= 0.0) return y;
    return where(greater(random_uniform(g, {}), probability), y, x);
}
// Returns the first token of each row: x [B, T, D] -> [B, D].
inline Value first_token(Value x, Location at = Location::here()) {
    const Caller caller(x.graph, at);
    return reshape(slice(x, 1, 0, 1), {x.dim(0), x.dim(2)});
}

// Returns the position of each row's last token that is not `pad`; without one that of attention_mask, or of the last
// token if the batch has no such field: ids [B, T] -> int32 [B].
inline Value last_token(Graph& g, Value ids, const std::optional<int64_t>& pad, Location at = Location::here()) {
    const Caller caller(g, at);
    const int64_t batch = ids.dim(0), length = ids.dim(1);
    if (!pad && g.has_field("attention_mask") && g.input("attention_mask").rank() == 2)
        return max(g.input("attention_mask") * g.iota(length), {1});
    if (!pad) return g.fill({batch}, static_cast<double>(length - 1), HK_KIND_INT32);
    return max(not_equal(ids, static_cast<double>(*pad)) * g.iota(length), {1});
}

// Applies an activation by its name in transformers' table (ACT2FN).
inline Value activation(Value x, const std::string& name, Location at = Location::here()) {
    const Caller caller(x.graph, at);
    if (name == "gelu" || name == "gelu_python") return gelu(x);
    if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast" || name == "gelu_python_tanh" ||
        name == "gelu_accurate")
        return gelu(x, {.tanh_approximation = 1});
    if (name == "gelu_10") return clamp(gelu(x), -10.0, 10.0);
    if (name == "relu") return relu(x);
    if (name == "relu2") return relu(x) * relu(x);
    if (name == "relu6") return clamp(x, 0.0, 6.0);
    if (name == "leaky_relu") return where(greater(x, 0.0), x, x * 0.01);
    if (name == "silu" || name == "swish") return silu(x);
    if (name == "quick_gelu") return x * sigmoid(x * 1.702);
    if (name == "tanh") return tanh(x);
    if (name == "sigmoid") return sigmoid(x);
    if (name == "softplus") return softplus(x);
    if (name == "mish") return x * tanh(softplus(x));
    if (name == "linear" || name == "identity") return x;
    if (name == "hardswish" || name == "hard_swish") return x * clamp(x + 3.0, 0.0, 6.0) / 6.0;
    if (name == "laplace") return (1.0 + erf((x - 0.707107) / (0.282095 * std::sqrt(2.0)))) * 0.5;
    if (name == "elu") return where(greater(x, 0.0), x, exp(minimum(x, like(x, 0.0))) - 1.0);
    throw invalid("the activation '" + name + "' is not known");
}

// Multi-head attention from x to source [B, Tk, D] (self-attention: x itself), with the names of its four layers.
struct AttentionLayer {
    std::string query, key, value, output;
    int64_t heads = 1;
    LayerOptions layer{};
    AttentionOptions options{};
    std::string once{}; // cross-attention: the name under which decode mode finds keys and values of the encode pass
};
inline Value attention_layer(Graph& g, Value x, Value source, const AttentionLayer& a, Location at = Location::here()) {
    const Caller caller(g, at);
    const int64_t width = x.dim(2);
    const auto project = [&](Value in, const std::string& name) {
        return split_heads(linear_layer(g, in, name, width, a.layer), a.heads);
    };
    const Value q = project(x, a.query);
    Value k = project(source, a.key), v = project(source, a.value);
    if (!a.once.empty()) {
        k = once(k, a.once + ".k");
        v = once(v, a.once + ".v");
    }
    return linear_layer(g, merge_heads(attention(q, k, v, a.options)), a.output, width, a.layer);
}

// Selects the hidden states for a masked language model's head: at masked_positions [B, P] if the batch has them,
// otherwise all: hidden [B, T, D] -> [B, P, D] or unchanged.
inline Value predicted_positions(Graph& g, Value hidden, Location at = Location::here()) {
    const Caller caller(g, at);
    return g.has_field("masked_positions") ? gather(hidden, g.input("masked_positions"), {.batch_dimensions = 1})
                                           : hidden;
}

// The head of masked language models: a linear layer, an activation, a norm, and the embedding as decoder with a bias.
struct MaskedHead {
    std::string dense, norm, bias; // bias: the parameter's whole name
    std::string activation = "gelu";
    double epsilon = 1e-12;
    double range = 0.02;
};
inline Value masked_head(Graph& g, Value hidden, Value decoder, const MaskedHead& h, Location at = Location::here()) {
    const Caller caller(g, at);
    const Value x =
        activation(linear_layer(g, hidden, h.dense, decoder.dim(1), {.initializer = normal(h.range)}), h.activation);
    return linear(layer_norm_layer(g, x, h.norm, h.epsilon), decoder, {.bias = g.parameter(h.bias, {decoder.dim(0)})});
}

// Position of the norms in a block.
enum class NormPosition { before, after, both, none };

// Arrangement of the two parts and their residuals. one_residual spans both parts.
enum class Arrangement { serial, parallel, one_residual };

// A transformer block. Its parts are functions; options define how they are connected.
struct Block {
    using Part = std::function<Value(Value)>;
    Part attention;
    Part feed_forward;
    Part attention_norm;    // the norm that belongs to attention (before or after it)
    Part feed_forward_norm; // in the parallel arrangement: empty means that both parts read attention_norm's result
    Part attention_after_norm, feed_forward_after_norm; // NormPosition::both only
    Part cross_attention, cross_attention_norm;         // between the two, in a decoder; serial only, before or after
    NormPosition norm = NormPosition::before;
    Arrangement arrangement = Arrangement::serial;
    double residual_dropout = 0.0;
};

// Builds the block in one recompute region, so that only its result needs to be kept for the gradient.
inline Value transformer_block(Graph& g, Value x, const Block& b, Location at = Location::here()) {
    const Recompute region(g);
    const auto apply = [](const Block::Part& part, Value value) { return part ? part(value) : value; };
    const bool before = b.norm == NormPosition::before || b.norm == NormPosition::both;
    const auto part = [&](const char* scope, const Block::Part& compute, const Block::Part& norm,
                          const Block::Part& after, Value in) {
        const Scope name(g, scope);
        Value y = compute(before ? apply(norm, in) : in);
        if (b.norm == NormPosition::both) y = apply(after, y);
        return drop(g, y, b.residual_dropout, at);
    };
    const auto close = [&](Value y, const Block::Part& norm) {
        return b.norm == NormPosition::after ? apply(norm, y) : y;
    };
    switch (b.arrangement) {
    case Arrangement::parallel: {
        const Block::Part& second = b.feed_forward_norm ? b.feed_forward_norm : b.attention_norm;
        const Value a = part("attention", b.attention, b.attention_norm, b.attention_after_norm, x);
        const Value f = part("mlp", b.feed_forward, second, b.feed_forward_after_norm, x);
        return close(add(add(x, a, at), f, at), b.attention_norm);
    }
    case Arrangement::one_residual: {
        const Value a = part("attention", b.attention, b.attention_norm, b.attention_after_norm, x);
        const Value f = part("mlp", b.feed_forward, b.feed_forward_norm, b.feed_forward_after_norm, a);
        return close(add(x, f, at), b.feed_forward_norm);
    }
    case Arrangement::serial: break;
    }
    const auto residual = [&](const char* scope, const Block::Part& compute, const Block::Part& norm,
                              const Block::Part& after) {
        return close(add(x, part(scope, compute, norm, after, x), at), norm);
    };
    x = residual("attention", b.attention, b.attention_norm, b.attention_after_norm);
    if (b.cross_attention) x = residual("cross_attention", b.cross_attention, b.cross_attention_norm, {});
    return residual("mlp", b.feed_forward, b.feed_forward_norm, b.feed_forward_after_norm);
}

// Names of the scopes and ports of hidden_states().
struct HiddenStatesOptions {
    std::string scope = "block";              // layer i runs in the scope "block.i"
    std::string port = "layer";               // and its result is offered as "layer.(i+1).hidden"
    std::function<Value(Value)> final_norm{}; // applied to the last layer's result before that is offered
};

// Runs layers 0 .. count - 1 on x [B, T, D] and offers the hidden states before and after each: layer.0.hidden, ...,
// layer.COUNT.hidden. Returns the last.
inline Value hidden_states(Graph& g, Value x, int64_t count, const std::function<Value(Value, int64_t)>& layer,
                           const HiddenStatesOptions& o = {}) {
    g.offer(o.port + ".0.hidden", x);
    for (int64_t i = 0; i < count; ++i) {
        {
            const Scope scope(g, o.scope + "." + std::to_string(i));
            x = layer(x, i);
        }
        if (o.final_norm && i + 1 == count) x = o.final_norm(x);
        g.offer(o.port + "." + std::to_string(i + 1) + ".hidden", x);
    }
    return o.final_norm && count <= 0 ? o.final_norm(x) : x;
}

// Returns the loss of logits against labels int32, -100 where none counts.
inline LossSum token_loss(Value logits, Value labels, double smoothing = 0.0, Location at = Location::here()) {
    const Caller caller(logits.graph, at);
    const Value rows = cross_entropy(logits, labels, {.smoothing = smoothing});
    return {sum_all(rows), sum_all(not_equal(labels, -100.0))};
}

// Reports how many labels have the highest logit; does nothing in training.
inline void accuracy_metric(Graph& g, const char* name, Value logits, Value labels, Location at = Location::here()) {
    const Caller caller(g, at);
    if (g.training()) return;
    const Value counts = not_equal(labels, -100.0);
    g.metric(name, sum_all(equal(argmax(logits), labels) * counts), sum_all(counts));
}

} // namespace hekla::plugin
