// small_slstm: a language model of an sLSTM layer (Beck et al. 2024). Its gates read what the layer returned for the
// token before, which no scan can compute: a loop over the tokens. The exponential gates are kept finite by their
// running maximum.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
    }
};

class SmallSlstm {
public:
    explicit SmallSlstm(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value words = g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.1));
        const Value x = embedding(words, ids);
        const Value mixed = slstm(g, rms_norm_layer(g, x, "norm", 1e-6));
        g.offer("hidden", x + dense(g, mixed, "out", s_.width));
        g.offer("embedding.weight", words);
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        const Value hidden = g.ask("hidden");
        g.offer("logits", linear(hidden, g.ask("embedding.weight")));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "small_slstm", s_); }

private:
    static Value dense(Graph& g, Value x, const std::string& name, int64_t out) {
        return linear(x, g.parameter(name + ".weight", {out, x.dim(-1)}, normal(0.1)));
    }

    // x [B, T, W] -> [B, T, W], with four states [B, W] that are passed on from token to token, and from chunk to
    // chunk.
    Value slstm(Graph& g, Value x) const {
        const int64_t batch = x.dim(0), length = x.dim(1), width = s_.width;
        const Value from_x = dense(g, x, "input", 4 * width); // one product for all tokens, before the loop
        const Value recurrent = g.parameter("recurrent.weight", {4 * width, width}, normal(0.1));
        const Value t = loop_index(g, length);
        const auto state = [&](const char* name, double initial) {
            return loop_state(t, state_read(g.fill({batch, width}, initial), name));
        };
        const Value h = state("h", 0.0);
        const Value cell = state("cell", 0.0);
        const Value norm = state("norm", 0.0);
        const Value largest = state("largest", -1e4);
        const Value gates = loop_step(t, from_x) + linear(h, recurrent);
        const Value input = slice(gates, 1, 0, width);
        const Value forget = log_sigmoid(slice(gates, 1, width, width)) + largest;
        const Value fresh = tanh(slice(gates, 1, 2 * width, width));
        const Value output = sigmoid(slice(gates, 1, 3 * width, width));
        const Value next_largest = maximum(input, forget);
        const Value write = exp(input - next_largest);
        const Value keep = exp(forget - next_largest);
        const Value next_cell = keep * cell + write * fresh;
        const Value next_norm = keep * norm + write;
        const Value next_h = output * (next_cell / next_norm);
        state_write(loop_next(h, next_h), "h");
        state_write(loop_next(cell, next_cell), "cell");
        state_write(loop_next(norm, next_norm), "norm");
        state_write(loop_next(largest, next_largest), "largest");
        return loop_collect(t, next_h);
    }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "small_slstm", architecture<SmallSlstm>()})
