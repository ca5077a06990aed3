// %NAME%: an operation of its own, y = x * sigmoid(sharpness * gate), in GLSL and with its gradient, and a small language
// model that uses it. Other plugins may use it too, by its id and revision.
#include "block.hpp"
#include "own_operation.hpp"

using namespace hekla::plugin;

namespace {

struct Gate {
    // What it takes and gives. operation() runs once for every element of the first output; load_NAME(i) and store_NAME(i, v)
    // are made by Hekla: they stay inside of the tensors, whatever i is.
    static OperationText describe() {
        return {.revision = 1,
                .inputs = {{"x"}, {"gate"}},
                .attributes = {attribute("sharpness", 1.0)},
                .outputs = {"y"},
                .glsl = R"(
float squashed(float v) { return 1.0 / (1.0 + exp(-v)); }
void operation(uint i) {
    store_y(i, load_x(i) * squashed(sharpness * load_gate(i)));
}
)"};
    }

    // The shapes that come out, and what is wrong with those that go in.
    static void shape(OperationUse& use) {
        use.require_same_shape(0, 1);
        use.give(0, use.shape(0));
    }

    // The gradient of each input, in operations of operations.hpp (or other ones of your own).
    static std::vector<Value> gradient(const OperationGradient& d) {
        const double sharpness = d.real("sharpness");
        const Value x = d.inputs[0], s = sigmoid(d.inputs[1] * sharpness), dy = d.output_gradients[0];
        const Value closed = 1.0 - s; // one operation a statement: a compiler may evaluate arguments in any order
        const Value of_x = dy * s;
        return {of_x, of_x * x * closed * sharpness};
    }

    // The same in double precision, plainly: the kernel is checked against it.
    static void reference(OperationUse& use) {
        const double sharpness = use.real("sharpness");
        for (std::size_t i = 0; i < use.output(0).size(); ++i)
            use.output(0)[i] = use.input(0)[i] / (1.0 + std::exp(-sharpness * use.input(1)[i]));
    }
};

// config.json's keys. Defaults and documentation are in manifest.json, and only there.
struct Settings {
    int64_t vocabulary = 0, positions = 0, width = 0, layers = 0, heads = 0;
    double sharpness = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("max_position_embeddings", positions);
        v("hidden_size", width);
        v("num_hidden_layers", layers);
        v("num_attention_heads", heads);
        v("sharpness", sharpness);
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
        const Value of_words = embedding(words(g), ids);
        Value x = of_words + embedding_layer(g, places, "positions", s_.positions, s_.width);
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
    // The same name is the same parameter, in every call.
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
            const Value q = part("query"), k = part("key"), v = part("value");
            const Value y = attention(q, k, v,
                                      {.key_padding = padding,
                                       .scale = 1.0 / std::sqrt(static_cast<double>(s_.width / s_.heads)),
                                       .causal = 1,
                                       .cache = "layer." + std::to_string(layer)}); // generation keeps keys and values
            return layer_of(merge_heads(y), "out", s_.width);
        };
        b.feed_forward = [&](Value in) {
            const int64_t inner = 4 * s_.width;
            const Value gated = own("%NAME%.gate", 1, {layer_of(in, "up", inner), layer_of(in, "gate", inner)},
                                    {attribute("sharpness", s_.sharpness)});
            return layer_of(gated, "down", s_.width);
        };
        return transformer_block(g, x, b);
    }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_OPERATION_INTERFACE, "%NAME%.gate", operation<Gate>()},
             {HK_ARCHITECTURE_INTERFACE, "%NAME%", architecture<%CLASS%>()})
