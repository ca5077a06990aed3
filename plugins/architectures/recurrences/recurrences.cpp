// Language models without attention: layers that pass on a state of fixed size, computed for whole rows at once.
//   mingru          gates that do not depend on the state (Feng et al. 2024, "Were RNNs all we needed?")
//   retention       products of queries and keys that decay with distance (Sun et al. 2023, RetNet)
//   selective_scan  a state space whose step depends on the token (Gu and Dao 2023, Mamba)
// The states are written per layer, so that text is generated from chunks of any size, with the logits of the whole
// row.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

constexpr double kDeviation = 0.02; // of initial weights

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, layers = 0, intermediate_size = 0;
    double epsilon = 0.0, dropout = 0.0;
    bool tied = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        v("num_hidden_layers", layers);
        v("intermediate_size", intermediate_size);
        v("rms_norm_eps", epsilon);
        v("dropout", dropout);
        v("tie_word_embeddings", tied);
    }
};

Value without_bias(Graph& g, Value x, const std::string& name, int64_t out) {
    return linear_layer(g, x, name, out, {.bias = false, .initializer = normal(kDeviation)});
}

// 1 for tokens and 0 for padding, [B, T, 1]; empty if there is none.
Value real_tokens(Graph& g) {
    const Value mask = causal_padding(g);
    return mask ? reshape(to_float(mask), {mask.dim(0), mask.dim(1), 1}) : Value{};
}

// Returns the dimensions of x [B, T, R...] without T.
Dims dims_of_state(Value x) {
    Dims dims{x.dim(0)};
    for (int i = 2; i < x.rank(); ++i) dims.push_back(x.dim(i));
    return dims;
}

// Runs y[t] = a[t] y[t - 1] + x[t] over axis 1 of x [B, T, R...], from the state of this name.
Value recurrence(Graph& g, Value x, Value a, const std::string& name) {
    const Dims dims = dims_of_state(x);
    const Value y = scan_linear(x, a, 1, {.initial = state_read(g.fill(dims, 0.0), name)});
    state_write(reshape(slice(y, 1, y.dim(1) - 1, 1), dims), name);
    return y;
}

// Mixes each channel of x [B, T, C] with those of the `width` - 1 tokens before it.
Value causal_convolution(Graph& g, Value x, const std::string& name, int64_t width) {
    const int64_t batch = x.dim(0), length = x.dim(1), channels = x.dim(2);
    const Value weight = g.parameter(name + ".weight", {width, channels}, normal(0.3));
    const Value nothing = g.fill({batch, width - 1, channels}, 0.0);
    const Value all = concat({state_read(nothing, name), x}, 1);
    state_write(slice(all, 1, length, width - 1), name);
    Value y = broadcast(g.parameter(name + ".bias", {channels}), x.shape());
    for (int64_t i = 0; i < width; ++i) y = y + slice(all, 1, i, length) * reshape(slice(weight, 0, i, 1), {channels});
    return y;
}

class MinGru {
public:
    static constexpr const char* kType = "mingru";
    explicit MinGru(const Config& c) : width_(c.integer("hidden_size", 0)) {}
    void write(ConfigWriter&) const {}

    Value mix(Graph& g, Value x, const std::string& layer) const {
        const Value update = sigmoid(linear_layer(g, x, layer + ".update", width_));
        const Value candidate = linear_layer(g, x, layer + ".candidate", width_);
        return without_bias(g, recurrence(g, update * candidate, 1.0 - update, layer + ".state"), layer + ".out",
                            width_);
    }

private:
    int64_t width_;
};

class Retention {
public:
    static constexpr const char* kType = "retention";
    explicit Retention(const Config& c)
        : width_(c.integer("hidden_size", 0)), heads_(c.integer("num_attention_heads", 4)),
          epsilon_(c.real("rms_norm_eps", 1e-6)) {
        require(width_ % heads_ == 0, "hidden_size must be a multiple of num_attention_heads");
    }
    void write(ConfigWriter& out) const { out.set("num_attention_heads", heads_); }

    // The tokens of a chunk see each other through products that decay with their distance, and earlier ones through
    // the state [B, H, D, D], the decayed sum of k v^T.
    Value mix(Graph& g, Value x, const std::string& layer) const {
        const int64_t batch = x.dim(0), length = x.dim(1), size = width_ / heads_;
        const Value q = split_heads(without_bias(g, x, layer + ".query", width_), heads_) * (1.0 / std::sqrt(size));
        const Value k = split_heads(without_bias(g, x, layer + ".key", width_), heads_);
        const Value v = split_heads(without_bias(g, x, layer + ".value", width_), heads_);
        std::vector<double> logarithms;
        for (int64_t h = 0; h < heads_; ++h)
            logarithms.push_back(std::log1p(-std::exp2(-5.0 - static_cast<double>(h))));
        const Value decay = g.constant(HK_KIND_FLOAT, {heads_, 1, 1}, logarithms); // of the logarithm, by one token
        const Value places = to_float(g.iota(length));
        const Value distance = reshape(places, {length, 1}) - reshape(places, {1, length});
        const Value seen =
            where(greater_equal(distance, 0.0), exp(decay * maximum(distance, g.number(0.0))), g.number(0.0));
        const Value state = state_read(g.fill({batch, heads_, size, size}, 0.0), layer + ".state");
        const Value before = exp(decay * reshape(places + 1.0, {length, 1})); // [H, T, 1]
        const Value after = exp(decay * reshape(static_cast<double>(length - 1) - places, {length, 1}));
        const Value y = matmul(matmul(q, k, {.transpose_b = 1}) * seen, v) + matmul(q * before, state);
        state_write(state * exp(decay * static_cast<double>(length)) + matmul(k * after, v, {.transpose_a = 1}),
                    layer + ".state");
        const Value gate = silu(without_bias(g, x, layer + ".gate", width_));
        return without_bias(g, gate * merge_heads(rms_norm(y, {.epsilon = epsilon_})), layer + ".out", width_);
    }

private:
    int64_t width_, heads_;
    double epsilon_;
};

class SelectiveScan {
public:
    static constexpr const char* kType = "selective_scan";
    explicit SelectiveScan(const Config& c)
        : width_(c.integer("hidden_size", 0)), inner_(width_ * c.integer("expand", 2)), expand_(c.integer("expand", 2)),
          states_(c.integer("state_size", 8)), kernel_(c.integer("conv_kernel", 4)) {}
    void write(ConfigWriter& out) const {
        out.set("expand", expand_);
        out.set("state_size", states_);
        out.set("conv_kernel", kernel_);
    }

    // Each of the inner channels has `state_size` states that decay by exp(-step * rate); the token chooses the step,
    // and what it writes and reads.
    Value mix(Graph& g, Value x, const std::string& layer) const {
        const int64_t batch = x.dim(0), length = x.dim(1);
        const Value gate = without_bias(g, x, layer + ".gate", inner_);
        const Value u =
            silu(causal_convolution(g, without_bias(g, x, layer + ".in", inner_), layer + ".conv", kernel_));
        const Value step = softplus(linear_layer(g, u, layer + ".step", inner_)); // [B, T, E]
        const Dims writes{batch, length, 1, states_}, channels{batch, length, inner_, 1};
        const Value write = reshape(without_bias(g, u, layer + ".write", states_), writes);
        const Value read = reshape(without_bias(g, u, layer + ".read", states_), writes);
        std::vector<double> logarithms; // S4D-real's rates 1, 2, ... for every channel
        for (int64_t n = 0; n < states_; ++n) logarithms.push_back(std::log(static_cast<double>(n + 1)));
        const Value first = g.constant(HK_KIND_FLOAT, {states_}, logarithms);
        const Value rate = exp(g.parameter(layer + ".rate", {inner_, states_}, zeros(), HK_PARAMETER_NO_DECAY) + first);
        const Value steps = reshape(step, channels);
        const Value h = recurrence(g, reshape(step * u, channels) * write, exp(-(steps * rate)), layer + ".state");
        const Value skip = g.parameter(layer + ".skip", {inner_}, ones(), HK_PARAMETER_NO_DECAY);
        return without_bias(g, (sum(h * read, {3}) + u * skip) * silu(gate), layer + ".out", width_);
    }

private:
    int64_t width_, inner_, expand_, states_, kernel_;
};

// Embedding, layers of a mixer and an MLP with norms before them, a norm.
template<class Mixer>
class Recurrent {
public:
    explicit Recurrent(const Config& c) : s_(read_settings<Settings>(c)), mixer_(c) {}

    void build(Graph& g) {
        Value x = embedding_layer(g, g.input("input_ids"), "embedding", s_.vocab_size, s_.hidden_size, -1,
                                  normal(kDeviation));
        x = drop(g, x, s_.dropout);
        const Value real = real_tokens(g);
        for (int64_t i = 0; i < s_.layers; ++i) {
            const std::string layer = "layers." + std::to_string(i);
            const Scope scope(g, layer);
            const Recompute region(g);
            Value in = rms_norm_layer(g, x, layer + ".mixer_norm", s_.epsilon);
            if (real) in = in * real;
            x = x + drop(g, mixer_.mix(g, in, layer + ".mixer"), s_.dropout);
            in = rms_norm_layer(g, x, layer + ".mlp_norm", s_.epsilon);
            const Value inner = silu(without_bias(g, in, layer + ".mlp.gate", s_.intermediate_size)) *
                                without_bias(g, in, layer + ".mlp.up", s_.intermediate_size);
            x = x + drop(g, without_bias(g, inner, layer + ".mlp.down", s_.hidden_size), s_.dropout);
            g.offer("layer." + std::to_string(i) + ".hidden", x);
        }
        g.offer("hidden", rms_norm_layer(g, x, "norm", s_.epsilon));
        g.offer("embedding.weight",
                g.parameter("embedding.weight", {s_.vocab_size, s_.hidden_size}, normal(kDeviation)));
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        const Value hidden = g.ask("hidden");
        g.offer("logits", s_.tied ? linear(hidden, g.ask("embedding.weight"))
                                  : without_bias(g, hidden, "lm_head", s_.vocab_size));
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, Mixer::kType, s_);
        mixer_.write(out);
    }

private:
    Settings s_;
    Mixer mixer_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, MinGru::kType, architecture<Recurrent<MinGru>>()},
             {HK_ARCHITECTURE_INTERFACE, Retention::kType, architecture<Recurrent<Retention>>()},
             {HK_ARCHITECTURE_INTERFACE, SelectiveScan::kType, architecture<Recurrent<SelectiveScan>>()})
