// The bidirectional language model that ELMo takes its features from (Peters et al. 2018): two independent stacks of
// LSTMs that share one softmax.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, embedding_size = 0, hidden_size = 0, num_layers = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("embedding_size", embedding_size);
        v("hidden_size", hidden_size);
        v("layers", num_layers);
    }
};

class BiLstm {
public:
    explicit BiLstm(const Config& c) : s_(read_settings<Settings>(c)) {
        require(s_.hidden_size > 0 && s_.embedding_size > 0 && s_.num_layers > 0,
                "hidden_size, embedding_size and layers must be positive");
    }

    void build(Graph& g) {
        const Value token_embedding = g.parameter("embedding.weight", {s_.vocab_size, s_.embedding_size}, normal(1.0));
        const Value x = embedding(token_embedding, g.input("input_ids"));
        g.offer("layer.0.hidden", concat({x, x}, 2)); // as wide as the others where embedding_size is hidden_size
        // The backward direction starts at the last real token of a row.
        const Value lengths = g.has_field("attention_mask") ? sum(g.input("attention_mask"), {1}) : Value{};
        Value f = x, b = x;
        for (int64_t i = 0; i < s_.num_layers; ++i) {
            f = read(g, f, lengths, "forward_lstm", i, false);
            b = read(g, b, lengths, "backward_lstm", i, true);
            g.offer("layer." + std::to_string(i + 1) + ".hidden", concat({f, b}, 2));
        }
        g.offer("forward.hidden", f);
        g.offer("backward.hidden", b);
        g.offer("hidden", concat({f, b}, 2));
        g.offer("embedding.weight", token_embedding);
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        const LayerOptions layer{.initializer = around_zero()};
        for (const std::string direction : {"forward", "backward"})
            g.offer(direction + ".logits",
                    linear_layer(g, g.ask(direction + ".hidden"), "output", s_.vocab_size, layer));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "bilstm-lm", s_); }

private:
    Initializer around_zero() const {
        const double limit = 1.0 / std::sqrt(static_cast<double>(s_.hidden_size));
        return uniform(-limit, limit);
    }

    Value read(Graph& g, Value x, Value lengths, const std::string& stack, int64_t index, bool reverse) {
        const Scope scope(g, stack + "." + std::to_string(index));
        const int64_t h = s_.hidden_size;
        const auto weight = [&](const char* name, const Dims& dims) {
            return g.parameter(stack + "." + name + "_l" + std::to_string(index), dims, around_zero());
        };
        return lstm(x, weight("weight_ih", {4 * h, x.dim(2)}), weight("weight_hh", {4 * h, h}),
                    weight("bias_ih", {4 * h}), weight("bias_hh", {4 * h}),
                    {.lengths = lengths, .reverse = reverse ? 1 : 0})
            .y;
    }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "bilstm_lm", architecture<BiLstm>()})
