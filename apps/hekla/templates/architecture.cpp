// %NAME%: a causal language model without attention. Each block mixes a token with the few before it by a convolution of
// its own weights a channel, gated by the token itself, and then thinks about it alone. Change what you like: everything
// is composed of the operations of operations.hpp, and gradients, kernels and memory are the engine's.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

// config.json's keys. Defaults and documentation are in manifest.json, and only there.
struct Settings {
    int64_t vocabulary = 0, width = 0, layers = 0, kernel = 0;
    double dropout = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
        v("num_hidden_layers", layers);
        v("kernel_size", kernel);
        v("dropout", dropout);
    }
};

class %CLASS% {
public:
    explicit %CLASS%(const Config& config) : s_(read_settings<Settings>(config)) {
        require(s_.width > 0 && s_.kernel > 1, "hidden_size must be positive and kernel_size 2 or more");
    }

    // The body: from token ids [B, T] to hidden states [B, T, width], which heads ask for by the port's name.
    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        Value x = embedding(words(g), ids);
        Value real; // 1 where there is a token, 0 where there is padding
        if (const Value padding = causal_padding(g)) real = reshape(to_float(padding), {ids.dim(0), ids.dim(1), 1});
        for (int64_t layer = 0; layer < s_.layers; ++layer) {
            const Scope scope(g, "block." + std::to_string(layer)); // errors and pictures name it
            x = block(g, x, real, layer);
        }
        g.offer("hidden", rms_norm_layer(g, x, "norm", 1e-6));
        g.offer("embedding.weight", words(g)); // so that heads for any body can say tokens
    }

    // Heads of its own; false leaves an id to the heads of other plugins.
    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        g.offer("logits", linear(g.ask("hidden"), words(g))); // tied: the embedding is the decoder
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "%NAME%", s_); }

private:
    // The same name is the same parameter, in every call.
    Value words(Graph& g) { return g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.02)); }

    Value block(Graph& g, Value x, Value real, int64_t layer) {
        const std::string name = "layers." + std::to_string(layer) + ".";
        const auto dense = [&](Value in, const char* part, int64_t out) {
            return linear_layer(g, in, name + part, out, {.bias = false});
        };
        Value y = rms_norm_layer(g, x, name + "mixer_norm", 1e-6);
        Value value = dense(y, "value", s_.width);
        if (real) value = value * real;
        const Value gate = sigmoid(dense(y, "gate", s_.width));
        y = gate * convolution(g, value, layer);
        x = x + drop(g, dense(y, "out", s_.width), s_.dropout);
        y = rms_norm_layer(g, x, name + "mlp_norm", 1e-6);
        return x + drop(g, dense(silu(dense(y, "up", 4 * s_.width)), "down", s_.width), s_.dropout);
    }

    // y_t = sum_k weight_k * x_(t - kernel + 1 + k), channel by channel. Before the row it is 0; while text is
    // generated it is what the last chunk ended with, which the state keeps.
    Value convolution(Graph& g, Value x, int64_t layer) {
        const int64_t batch = x.dim(0), length = x.dim(1), before = s_.kernel - 1;
        const std::string state = "layer." + std::to_string(layer);
        const Value all = concat({state_read(g.fill({batch, before, s_.width}, 0.0), state), x}, 1);
        state_write(slice(all, 1, length, before), state);
        const Value weight = g.parameter("layers." + std::to_string(layer) + ".convolution.weight",
                                         {s_.kernel, s_.width}, normal(0.3));
        // One slice a statement: in which order a compiler evaluates arguments is its own choice, and must not be the graph's.
        Value y;
        for (int64_t k = 0; k < s_.kernel; ++k) {
            const Value seen = slice(all, 1, k, length), one = slice(weight, 0, k, 1);
            y = k == 0 ? seen * one : y + seen * one;
        }
        return y;
    }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "%NAME%", architecture<%CLASS%>()})
