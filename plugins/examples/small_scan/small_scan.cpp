// small_scan: a language model of a selective scan (Gu and Dao 2023). Each channel has states that decay, and the token
// chooses how fast, what it writes and what it reads. A row at once and token by token give the same.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0, states = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
        v("state_size", states);
    }
};

class SmallScan {
public:
    explicit SmallScan(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value words = g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.1));
        const Value x = embedding(words, ids);
        const Value mixed = scan(g, rms_norm_layer(g, x, "norm", 1e-6));
        const Value gate = silu(dense(g, x, "gate", s_.width));
        g.offer("hidden", x + dense(g, mixed * gate, "out", s_.width));
        g.offer("embedding.weight", words);
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        const Value hidden = g.ask("hidden");
        g.offer("logits", linear(hidden, g.ask("embedding.weight")));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "small_scan", s_); }

private:
    static Value dense(Graph& g, Value x, const std::string& name, int64_t out) {
        return linear(x, g.parameter(name + ".weight", {out, x.dim(-1)}, normal(0.1)));
    }

    // x [B, T, W] -> [B, T, W], through states [B, W, N] that are passed on from chunk to chunk.
    Value scan(Graph& g, Value x) const {
        const int64_t batch = x.dim(0), length = x.dim(1);
        const Dims channels{batch, length, s_.width, 1}, states{batch, length, 1, s_.states};
        const Dims kept{batch, s_.width, s_.states};
        const Value step = softplus(dense(g, x, "step", s_.width));
        const Value write = reshape(dense(g, x, "write", s_.states), states);
        const Value read = reshape(dense(g, x, "read", s_.states), states);
        const Value rate = exp(g.parameter("rate", {s_.width, s_.states}, normal(0.5)));
        const Value decay = exp(-(reshape(step, channels) * rate));
        const Value written = reshape(step * x, channels) * write;
        const Value before = state_read(g.fill(kept, 0.0), "state");
        const Value h = scan_linear(written, decay, 1, {.initial = before});
        state_write(reshape(slice(h, 1, length - 1, 1), kept), "state");
        return sum(h * read, {3});
    }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "small_scan", architecture<SmallScan>()})
