// %NAME%: a causal language model of pre-norm blocks, attention and a gated feed-forward layer. Change what you like:
// everything is composed of the operations of operations.hpp, and gradients, kernels and caches are the engine's.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

// config.json's keys. Defaults and documentation are in manifest.json, and only there.
struct Settings {
    int64_t vocabulary = 0, positions = 0, width = 0, layers = 0, heads = 0;
    double dropout = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("max_position_embeddings", positions);
        v("hidden_size", width);
        v("num_hidden_layers", layers);
        v("num_attention_heads", heads);
        v("dropout", dropout);
    }
};

class %CLASS% {
public:
    explicit %CLASS%(const Config& config) : s_(read_settings<Settings>(config)) {
        require_heads(s_.width, s_.heads, "hidden_size", "num_attention_heads");
    }

    // The body: from token ids [B, T] to hidden states [B, T, width], which heads ask for by the port's name.
    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value places = position_ids(g, ids.dim(0), ids.dim(1), s_.positions, "max_position_embeddings");
        Value x = embedding(words(g), ids) + embedding_layer(g, places, "positions", s_.positions, s_.width);
        const Value padding = causal_padding(g);
        for (int64_t layer = 0; layer < s_.layers; ++layer) {
            const Scope scope(g, "block." + std::to_string(layer)); // errors and pictures name it
            x = block(g, x, padding, layer);
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
    // The same name is the same parameter, wherever it is asked for.
    Value words(Graph& g) { return g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.02)); }

    Value block(Graph& g, Value x, Value padding, int64_t layer) {
        const std::string name = "layers." + std::to_string(layer) + ".";
        const auto layer_of = [&](Value in, const char* part, int64_t out) {
            return linear_layer(g, in, name + part, out, {.bias = false});
        };
        Block b;
        b.attention_norm = [&](Value in) { return rms_norm_layer(g, in, name + "attention_norm", 1e-6); };
        b.feed_forward_norm = [&](Value in) { return rms_norm_layer(g, in, name + "mlp_norm", 1e-6); };
        b.attention = [&](Value in) {
            const auto part = [&](const char* what) { return split_heads(layer_of(in, what, s_.width), s_.heads); };
            const Value y = attention(part("query"), part("key"), part("value"),
                                      {.key_padding = padding,
                                       .scale = 1.0 / std::sqrt(static_cast<double>(s_.width / s_.heads)),
                                       .causal = 1,
                                       .cache = "layer." + std::to_string(layer)}); // generation keeps keys and values
            return layer_of(merge_heads(y), "out", s_.width);
        };
        b.feed_forward = [&](Value in) {
            const int64_t inner = 4 * s_.width;
            return layer_of(silu(layer_of(in, "gate", inner)) * layer_of(in, "up", inner), "down", s_.width);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "%NAME%", architecture<%CLASS%>()})
